//! Records, compares and restores the whole content of a workspace, with or without git; knows no tool.

mod compare;
mod git;
mod held;
mod ignored;
mod index;
mod merge;
mod objects;
mod restore;
mod scan;
mod tree;
mod undo;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::ports::{FileChange, Workspace};
use crate::protocol::effect::DiffOrder;
use crate::protocol::event::{DiffTaken, WorkspaceCheckpointed, WorkspaceFingerprinted};
use crate::protocol::expand::hex;
use index::Index;
pub use merge::MergePlan;
use objects::Objects;
use scan::{Scan, Scanner};
use tree::Tree;
pub use undo::UndoPlan;

/// The index is written down once this part of it is new.
const UNSAVED_SHARE: usize = 16;

/// One workspace and the store its content is recorded in.
///
/// What is recorded: files with their permission bits and symbolic links, as the workspace's own ignore rules
/// leave them; not `.git`, `.agon`, empty directories, names that are not UTF-8 or files above 64 MiB.
#[derive(Clone, Debug)]
pub struct WorkspaceStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    objects: Objects,
    index_file: PathBuf,
    /// One scan at a time: two would only do the same work twice.
    known: Mutex<Option<Seen>>,
}

/// What the last look found.
#[derive(Debug)]
struct Seen {
    index: Index,
    /// Files that were read since the index was written down.
    unsaved: usize,
    /// The tree that was stored last, and its id.
    stored: Option<(Tree, String)>,
}

impl WorkspaceStore {
    /// Opens a workspace with a state directory (made when missing) that may be shared by many.
    pub fn open(root: &Path, state: &Path) -> Result<Self, String> {
        let real = std::fs::canonicalize(root)
            .map_err(|error| format!("the workspace `{}` cannot be opened: {error}", root.display()))?;
        if !real.is_dir() {
            return Err(format!("the workspace `{}` is not a directory", root.display()));
        }
        let objects = Objects::open(&state.join("objects"))?;
        let name = hex(&Sha256::digest(real.as_os_str().as_encoded_bytes()));
        let index_file = state.join("index").join(format!("{name}.json"));
        let inner = Inner { root: real, objects, index_file, known: Mutex::new(None) };
        Ok(WorkspaceStore { inner: Arc::new(inner) })
    }

    /// Writes a recorded tree into a directory that is empty or missing. A caller that waits no longer goes on once
    /// nothing more is written.
    pub async fn restore_into(&self, tree: &str, dir: &Path) -> Result<(), String> {
        let (tree, dir) = (tree.to_owned(), dir.to_owned());
        let (writing, ended) = mpsc::channel::<()>();
        let _ended = Ended(ended);
        self.blocking(move |inner, dropped| {
            let _writing = writing;
            restore::into(&inner.objects, &Tree::load(&inner.objects, &tree)?, &dir, dropped)
        })
        .await
    }

    /// Plans to take turns back, the last one first, each given by the trees it began and ended with. The tree that is
    /// there now and the one it is to be are recorded; `force` is for paths that were changed since.
    pub async fn plan_undo(&self, turns: &[(String, String)], force: bool) -> Result<UndoPlan, String> {
        let turns = turns.to_owned();
        self.blocking(move |inner, dropped| {
            let load = |id: &String| Tree::load(&inner.objects, id);
            let turns: Vec<(Tree, Tree)> = turns
                .iter()
                .map(|(before, after)| Ok((load(before)?, load(after)?)))
                .collect::<Result<_, String>>()?;
            let (from, scan) = inner.checkpoint(dropped)?;
            let (target, mut plan) = undo::target(&inner.objects, &scan.tree, &turns, force)?;
            let to = target.store(&inner.objects).and_then(|id| inner.objects.flush().map(|()| id))?;
            (plan.diff.from, plan.diff.to) = (from, to);
            Ok(plan)
        })
        .await
    }

    /// Plans to bring the changes of a copy, from the tree it began with to the one it has, into this workspace.
    pub async fn plan_merge(&self, base: &str, theirs: &str) -> Result<MergePlan, String> {
        let (base, theirs) = (base.to_owned(), theirs.to_owned());
        self.blocking(move |inner, dropped| {
            let (base, theirs) = (Tree::load(&inner.objects, &base)?, Tree::load(&inner.objects, &theirs)?);
            let (from, scan) = inner.checkpoint(dropped)?;
            let (target, mut plan) = merge::plan(&inner.objects, &base, &theirs, &scan.tree)?;
            let to = target.store(&inner.objects).and_then(|id| inner.objects.flush().map(|()| id))?;
            (plan.diff.from, plan.diff.to) = (from, to);
            Ok(plan)
        })
        .await
    }

    /// The difference of two recorded trees.
    pub async fn diff_between(&self, from: &str, to: &str) -> Result<DiffTaken, String> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.blocking(move |inner, _| {
            let (before, after) = (Tree::load(&inner.objects, &from)?, Tree::load(&inner.objects, &to)?);
            Ok(DiffTaken { from, to, ..compare::trees(&inner.objects, &before, &after)? })
        })
        .await
    }

    /// What changed since a moment (microseconds since the Unix epoch) and is not recorded: ignored files, large ones.
    pub async fn changed_ignored(&self, since: u64) -> Result<Vec<String>, String> {
        self.blocking(move |inner, dropped| {
            let scan = inner.scan(false, dropped)?;
            Ok(ignored::changed(&inner.root, inner.objects.state(), &scan.tree, since))
        })
        .await
    }

    /// The recorded content with this SHA-256, checked against it.
    pub fn recorded(&self, sha256: &str) -> Result<Vec<u8>, String> {
        self.inner.objects.read(sha256)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &CancellationToken) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (inner, dropped) = (self.inner.clone(), CancellationToken::new());
        // A caller that waits no longer ends the look as well: its thread would go on, and hold the next one up.
        let _guard = dropped.clone().drop_guard();
        match tokio::task::spawn_blocking(move || work(&inner, &dropped)).await {
            Ok(result) => result,
            Err(error) => Err(format!("the workspace could not be looked at: {error}")),
        }
    }
}

/// Waits, as it is dropped, until the thread has ended that holds the other end.
struct Ended(Receiver<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Nothing is ever sent: the other end is dropped.
        let _ = self.0.recv();
    }
}

impl Inner {
    /// Looks at every file; with `record`, puts what is new into the store.
    fn scan(&self, record: bool, dropped: &CancellationToken) -> Result<Scan, String> {
        let mut slot = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = slot.take();
        let Seen { index, unsaved, stored } =
            known.unwrap_or_else(|| Seen { index: Index::load(&self.index_file), unsaved: 0, stored: None });
        let objects = record.then_some(&self.objects);
        let scanner = Scanner::new(&self.root, self.objects.state(), objects, index)?;
        let (scan, index) = scanner.run(dropped)?;
        let mut unsaved = unsaved + scan.noted;
        // A step writes down what it changed and not all there is: what is missing here is read again, once.
        if unsaved > index.len() / UNSAVED_SHARE {
            // Losing the index costs time, never truth, so a state folder that is full does not stop the scan.
            let _ = index.save(&self.index_file);
            unsaved = 0;
        }
        *slot = Some(Seen { index, unsaved, stored });
        Ok(scan)
    }

    fn checkpoint(&self, dropped: &CancellationToken) -> Result<(String, Scan), String> {
        let scan = self.scan(true, dropped)?;
        let mut slot = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let last = slot.as_ref().and_then(|seen| seen.stored.as_ref());
        if let Some((_, id)) =
            last.filter(|(tree, id)| scan.noted == 0 && *tree == scan.tree && self.objects.has(id))
        {
            return Ok((id.clone(), scan));
        }
        match scan.tree.store(&self.objects).and_then(|id| self.objects.flush().map(|()| id)) {
            Ok(id) => {
                if let Some(seen) = &mut *slot {
                    seen.stored = Some((scan.tree.clone(), id.clone()));
                }
                Ok((id, scan))
            }
            Err(error) => {
                // What was put may not be in the store.
                *slot = None;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Workspace for WorkspaceStore {
    async fn fingerprint(&self) -> Result<WorkspaceFingerprinted, String> {
        self.blocking(|inner, dropped| {
            let scan = inner.scan(false, dropped)?;
            Ok(WorkspaceFingerprinted {
                fingerprint: scan.fingerprint(),
                files: scan.tree.entries.len() as u64,
                git: git::digest(&inner.root, dropped),
                ignored: ignored::digest(&inner.root, inner.objects.state(), &scan.tree),
            })
        })
        .await
    }

    async fn checkpoint(&self) -> Result<WorkspaceCheckpointed, String> {
        self.blocking(|inner, dropped| {
            let (tree, scan) = inner.checkpoint(dropped)?;
            let skipped = scan.skipped.into_iter().map(|(path, _)| path).collect();
            Ok(WorkspaceCheckpointed { tree, files: scan.tree.entries.len() as u64, skipped })
        })
        .await
    }

    async fn diff(&self, order: &DiffOrder) -> Result<DiffTaken, String> {
        let DiffOrder { from, written, shown } = order.clone();
        self.blocking(move |inner, dropped| {
            let (to, scan) = inner.checkpoint(dropped)?;
            let restored = held::again(&inner.root, &scan.tree, &written);
            if shown.as_ref() == Some(&to) {
                return Ok(DiffTaken { from, to, restored, ..DiffTaken::default() });
            }
            let taken = compare::trees(&inner.objects, &Tree::load(&inner.objects, &from)?, &scan.tree)?;
            let touched = match shown {
                Some(shown) => {
                    let shown = Tree::load(&inner.objects, &shown)?;
                    let differing = compare::differing(&shown, &scan.tree);
                    differing.into_iter().map(|(path, ..)| path.to_owned()).collect()
                }
                None => Vec::new(),
            };
            Ok(DiffTaken { from, to, restored, touched, ..taken })
        })
        .await
    }

    async fn changes(&self, from: &str) -> Result<Vec<FileChange>, String> {
        let from = from.to_owned();
        self.blocking(move |inner, dropped| {
            let before = Tree::load(&inner.objects, &from)?;
            let (_, scan) = inner.checkpoint(dropped)?;
            if let Some((path, _)) = scan.skipped.first() {
                return Err(format!("`{path}` is too large or cannot be read, so it is not recorded"));
            }
            compare::changes(&before, &scan.tree)
        })
        .await
    }

    async fn content(&self, sha256: &str) -> Result<Vec<u8>, String> {
        let sha256 = sha256.to_owned();
        self.blocking(move |inner, _| inner.objects.read(&sha256)).await
    }
}
