//! Writes a recorded tree into an empty directory; knows no live workspace.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use tokio_util::sync::CancellationToken;

use super::objects::{Objects, named};
use super::tree::{Kind, Tree};

/// Writes every file, then every link, so that no file is ever written through one; ends early once it is `dropped`.
pub fn into(objects: &Objects, tree: &Tree, dir: &Path, dropped: &CancellationToken) -> Result<(), String> {
    std::fs::create_dir_all(dir).map_err(|error| named(dir, error))?;
    let folder = Dir::open_ambient_dir(dir, ambient_authority()).map_err(|error| named(dir, error))?;
    if folder.entries().map_err(|error| named(dir, error))?.next().is_some() {
        return Err(format!(
            "`{}` is not empty; a recorded tree is only written into an empty directory",
            dir.display()
        ));
    }
    for entry in &tree.entries {
        if dropped.is_cancelled() {
            return Err("the files are not needed any more".to_owned());
        }
        if let Kind::File { exec, sha256, mode, .. } = &entry.kind {
            let bytes = objects.read(sha256)?;
            write(&folder, &entry.path, &bytes, Kind::mode(*exec, *mode))
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

fn write(folder: &Dir, path: &str, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    make_parent(folder, path)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = folder.open_with(path, &options)?.into_std();
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))
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
