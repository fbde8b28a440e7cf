//! Writes a recorded tree into an empty directory; knows no live workspace.

use std::io::Write;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use super::objects::{Objects, named};
use super::tree::{Kind, Tree};

/// Writes every file, then every link, so that no file is ever written through one.
pub fn into(objects: &Objects, tree: &Tree, dir: &Path) -> Result<(), String> {
    std::fs::create_dir_all(dir).map_err(|error| named(dir, error))?;
    let folder = Dir::open_ambient_dir(dir, ambient_authority()).map_err(|error| named(dir, error))?;
    if folder.entries().map_err(|error| named(dir, error))?.next().is_some() {
        return Err(format!(
            "`{}` is not empty; a recorded tree is only written into an empty directory",
            dir.display()
        ));
    }
    for entry in &tree.entries {
        if let Kind::File { exec, sha256, .. } = &entry.kind {
            let bytes = objects.read(sha256)?;
            write(&folder, &entry.path, &bytes, *exec)
                .map_err(|error| named(Path::new(&entry.path), error))?;
        }
    }
    for entry in &tree.entries {
        if let Kind::Link { target } = &entry.kind {
            link(&folder, &entry.path, target).map_err(|error| named(Path::new(&entry.path), error))?;
        }
    }
    Ok(())
}

fn write(folder: &Dir, path: &str, bytes: &[u8], exec: bool) -> std::io::Result<()> {
    make_parent(folder, path)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(if exec { 0o777 } else { 0o666 });
    folder.open_with(path, &options)?.write_all(bytes)
}

fn link(folder: &Dir, path: &str, target: &str) -> std::io::Result<()> {
    make_parent(folder, path)?;
    folder.symlink_contents(target, path)
}

fn make_parent(folder: &Dir, path: &str) -> std::io::Result<()> {
    match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => folder.create_dir_all(parent),
        _ => Ok(()),
    }
}
