//! The holder of a session: started with the first call, and again where it has ended or what it shows was replaced.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::Mutex;

use super::super::protected_snapshot::Same;
use super::held::Split;
use super::launch::{Holder, NO_COPY};
use super::plan::HeldPlan;

/// At most one holder, shared by the calls of a sandbox.
pub struct SessionHolder {
    program: PathBuf,
    now: Mutex<Option<Kept>>,
    /// Why each call has a holder of its own, where that is so.
    single: OnceLock<String>,
}

struct Kept {
    holder: Arc<Holder>,
    marks: Vec<Option<Same>>,
}

impl SessionHolder {
    /// None yet. `program` becomes it.
    pub fn new(program: PathBuf) -> Self {
        SessionHolder { program, now: Mutex::default(), single: OnceLock::new() }
    }

    /// The one that serves the next call.
    pub async fn get(&self, split: &Split, plan: &HeldPlan) -> Result<Arc<Holder>, String> {
        if self.single.get().is_some() {
            let plan = HeldPlan { is_single: true, ..plan.clone() };
            return Holder::start(&self.program, &plan).await.map(Arc::new);
        }
        let mut now = self.now.lock().await;
        // Looked at before it is started: what is replaced meanwhile is found with the next call.
        let marks = split.marks();
        if let Some(kept) = now.as_ref().filter(|kept| kept.marks == marks) {
            return Ok(Arc::clone(&kept.holder));
        }
        // It ends with the last call that runs in it.
        *now = None;
        let holder = Arc::new(Holder::start(&self.program, plan).await?);
        *now = Some(Kept { holder: Arc::clone(&holder), marks });
        Ok(holder)
    }

    /// This one has ended.
    pub async fn lose(&self, holder: &Arc<Holder>) {
        self.now.lock().await.take_if(|kept| Arc::ptr_eq(&kept.holder, holder));
    }

    /// Goes over to a holder for each call. The one that was takes up none of what the machine allows.
    pub async fn make_single(&self, why: &str) {
        self.close().await;
        // Of calls at once the first says why.
        let _ = self.single.set(why.strip_prefix(NO_COPY).unwrap_or(why).to_owned());
    }

    /// Why each call has a holder of its own, if so.
    pub fn why_single(&self) -> Option<&str> {
        self.single.get().map(String::as_str)
    }

    /// Ends it.
    pub async fn close(&self) {
        *self.now.lock().await = None;
    }
}

/// The shell that reads command lines. One of the system's is seen at the same place inside; any other is looked up there.
pub fn shell(path: Option<&OsString>) -> OsString {
    let folders = path.map(std::env::split_paths);
    let found = folders.into_iter().flatten().map(|folder| folder.join("sh")).find(|shell| shell.is_file());
    let of_the_system = |shell: &PathBuf| ["/usr/bin", "/bin"].iter().any(|folder| shell.starts_with(folder));
    found.filter(of_the_system).map_or_else(|| "sh".into(), PathBuf::into_os_string)
}
