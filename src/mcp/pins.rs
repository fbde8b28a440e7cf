//! The definitions of a server's tools that were accepted, kept in a file next to the sessions.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Definition, Standing};

/// What was accepted of one server.
pub struct Pins {
    file: PathBuf,
    identity: String,
    /// None for a server that was never seen.
    tools: Option<BTreeMap<String, Definition>>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// What the server was when they were accepted.
    identity: String,
    tools: Vec<Definition>,
}

impl Pins {
    /// Reads the file. One of another server counts as none; one that is damaged as one without tools, so that each of
    /// them is asked about.
    pub fn read(file: &Path, identity: String) -> Self {
        let by_name = |tools: Vec<Definition>| tools.into_iter().map(|one| (one.name.clone(), one)).collect();
        let tools = match std::fs::read(file).map(|bytes| serde_json::from_slice::<Kept>(&bytes)) {
            Ok(Ok(kept)) if kept.identity == identity => Some(by_name(kept.tools)),
            Ok(Ok(_)) => None,
            Ok(Err(_)) => Some(BTreeMap::new()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(_) => Some(BTreeMap::new()),
        };
        Pins { file: file.to_owned(), identity, tools }
    }

    /// The accepted definitions; none for a server that was never seen.
    pub fn known(&self) -> Option<Vec<Definition>> {
        self.tools.as_ref().map(|tools| tools.values().cloned().collect())
    }

    /// Whether a definition was accepted.
    pub fn standing(&self, tool: &Definition) -> Standing {
        match self.tools.iter().flatten().find(|(name, _)| **name == tool.name) {
            Some((_, accepted)) if accepted == tool => Standing::Accepted,
            Some((_, accepted)) => Standing::Changed(Box::new(accepted.clone())),
            None => Standing::New,
        }
    }

    /// Takes the first list of a server that was never seen; its configuration is the user's word for it.
    pub fn first_seen(&mut self, tools: &[Definition]) -> Result<(), String> {
        match self.tools {
            Some(_) => Ok(()),
            None => self.accept_all(tools.iter().cloned()),
        }
    }

    /// Accepts one more definition.
    pub fn accept(&mut self, tool: Definition) -> Result<(), String> {
        let mut tools = self.tools.clone().unwrap_or_default();
        tools.insert(tool.name.clone(), tool);
        self.accept_all(tools.into_values())
    }

    /// Accepts these and no others.
    pub fn accept_all(&mut self, tools: impl Iterator<Item = Definition>) -> Result<(), String> {
        let tools: Vec<Definition> = tools.collect();
        let kept = Kept { identity: self.identity.clone(), tools };
        self.write(&kept).map_err(|error| format!("cannot write `{}`: {error}", self.file.display()))?;
        self.tools = Some(kept.tools.into_iter().map(|one| (one.name.clone(), one)).collect());
        Ok(())
    }

    fn write(&self, kept: &Kept) -> std::io::Result<()> {
        let folder = self.file.parent().unwrap_or(&self.file);
        std::fs::create_dir_all(folder)?;
        let mut whole = tempfile::Builder::new().prefix(".agon-").tempfile_in(folder)?;
        whole.write_all(&serde_json::to_vec_pretty(kept)?)?;
        whole.persist(&self.file).map(drop).map_err(|error| error.error)
    }
}
