//! The fingerprint of a workspace of 50,000 small files: the first look, later looks, and a bare walk that only stats.
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up has nothing to measure")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use agon::ports::Workspace;
use agon::workspace::WorkspaceStore;
use divan::Bencher;
use divan::counter::ItemsCount;
use tokio::runtime::Runtime;

const FOLDERS: usize = 500;
const FILES: usize = 100;

/// The workspace all benches look at, and a folder for state beside it.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = tempfile::tempdir().unwrap().keep();
    for folder in 0..FOLDERS {
        let folder = place.join(format!("work/src/part{}/module{folder}", folder % 20));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..FILES {
            let text = format!("// {}\n", folder.display()).repeat(1 + file % 40);
            fs::write(folder.join(format!("file{file}.rs")), text).unwrap();
        }
    }
    fs::write(place.join("work/.gitignore"), "/target\n*.log\n").unwrap();
    place
});

fn main() {
    divan::main();
    // A static is never dropped, so its folder is removed here.
    fs::remove_dir_all(&*PLACE).unwrap();
}

fn store(state: &Path) -> WorkspaceStore {
    WorkspaceStore::open(&PLACE.join("work"), state).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn look(store: &WorkspaceStore, runtime: &Runtime) -> String {
    runtime.block_on(store.fingerprint()).unwrap().fingerprint
}

/// The limit of any later look: every name listed, every file asked for its state.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn bare_walk_and_stat(bencher: Bencher<'_, '_>) {
    let root = PLACE.join("work");
    bencher.counter(ItemsCount::new(FOLDERS * FILES)).bench_local(|| sizes(&root));
}

fn sizes(folder: &Path) -> u64 {
    let sizes = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => sizes(&entry.path()),
            false => entry.metadata().unwrap().len(),
        }
    });
    sizes.sum()
}

/// Nothing is known: every file is read.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn first_look(bencher: Bencher<'_, '_>) {
    let (runtime, _) = (runtime(), &*PLACE);
    bencher
        .counter(ItemsCount::new(FOLDERS * FILES))
        .with_inputs(|| tempfile::tempdir().unwrap())
        .bench_local_refs(|state| look(&store(state.path()), &runtime));
}

/// The index is in memory.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn later_look(bencher: Bencher<'_, '_>) {
    let (runtime, state) = (runtime(), tempfile::tempdir().unwrap());
    let store = store(state.path());
    let first = look(&store, &runtime);
    bencher.counter(ItemsCount::new(FOLDERS * FILES)).bench_local(|| {
        let again = look(&store, &runtime);
        assert!(again == first, "an unchanged workspace has one fingerprint");
    });
}

/// A new process: the index comes from the disk.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn first_look_of_a_later_process(bencher: Bencher<'_, '_>) {
    let (runtime, state) = (runtime(), tempfile::tempdir().unwrap());
    look(&store(state.path()), &runtime);
    bencher.counter(ItemsCount::new(FOLDERS * FILES)).bench_local(|| look(&store(state.path()), &runtime));
}
