//! Which references a call takes away. Git says so itself, and never takes the branch that is checked out; other commands
//! can, and say nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::place::GitPlace;
use super::refs;
use super::scan::{self, Change, Layer};

/// The references that are gone with what is taken over, each with its object. An error where git would not have done it.
pub fn removed(place: &GitPlace, layer: &Layer) -> Result<BTreeMap<String, String>, String> {
    let packed_refs = PathBuf::from("packed-refs");
    let packed = |bytes: &[u8]| -> BTreeMap<String, String> {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        refs::packed(text, place.hash).unwrap_or_default().into_iter().collect()
    };
    let is_written = |path: &Path| matches!(layer.files.get(path), Some(Change::Write(_)));
    let names = layer.files.keys().filter(|path| path.starts_with("refs") && !is_written(path));
    let names: Vec<&PathBuf> = names.collect();
    if names.is_empty() && !is_written(&packed_refs) {
        return Ok(BTreeMap::new());
    }
    let old = packed(&scan::read_list(&place.common.join(&packed_refs)).unwrap_or_default());
    let new = match layer.files.get(&packed_refs) {
        Some(Change::Write(bytes)) => packed(bytes),
        _ => old.clone(),
    };
    let mut gone = BTreeMap::new();
    for path in names {
        let was = crate::host_files::text(&place.common.join(path), 4096).unwrap_or_default();
        let (name, was) = (path.to_string_lossy().into_owned(), was.trim().to_owned());
        match new.get(&name) {
            // What was packed in this call may have moved in it before.
            Some(now) if *now == was || is_written(&packed_refs) => {}
            Some(_) => return Err(format!("`{name}` went back to what it was when references were packed")),
            None => drop(gone.insert(name, was)),
        }
    }
    let is_loose = |name: &str| is_written(Path::new(name)) || place.common.join(name).is_file();
    let unpacked = old.into_iter().filter(|(name, _)| !new.contains_key(name) && !is_loose(name));
    gone.extend(unpacked);
    let head = place.own.join("HEAD");
    let head = match layer.files.get(&head) {
        Some(Change::Write(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => crate::host_files::text(&place.common.join(&head), 4096).unwrap_or_default(),
    };
    match refs::symbolic(&head).filter(|name| gone.contains_key(*name)) {
        Some(name) => Err(format!("`{name}` was removed, which is the branch that is checked out")),
        None => Ok(gone),
    }
}
