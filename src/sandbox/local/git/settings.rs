//! What git knows of the user inside: name, address, hooks and a few habits, and what is off there for every repository.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host_files;

/// How long git may take: one of a repository's files may be a pipe, which git waits for without end.
const LONGEST: Duration = Duration::from_secs(2);

/// The user's settings that are known inside. None starts a program but the filters of git-lfs.
const KNOWN: &str = "^(user\\.(name|email)|init\\.defaultbranch|core\\.(autocrlf|eol)|pull\\.(rebase|ff)|\
                     merge\\.conflictstyle|core\\.(excludesfile|hookspath)|\
                     filter\\..*\\.(clean|smudge|process|required))$";

/// Names the file that says what git ignores everywhere; a copy of it is known.
const EXCLUDES: &str = "core.excludesfile";
/// Names the folder of the user's hooks; a copy of it is known.
const HOOKS: &str = "core.hookspath";
/// The largest hook that is copied.
const MOST_HOOK: u64 = 1024 * 1024;

/// Settings of every call, whatever a repository says. Signing needs keys that are not there; what runs behind the back
/// of a command, keeps part of the index elsewhere, packs, or writes configuration is not taken over.
const FORCED: [(&str, &str); 10] = [
    ("safe.directory", "*"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("core.splitIndex", "false"),
    ("core.fsmonitor", "false"),
    ("branch.autoSetupMerge", "false"),
    ("fetch.unpackLimit", "1000000"),
    ("fetch.writeCommitGraph", "false"),
];

/// The program, from a folder of `PATH` that no workspace can hold.
pub fn program(path: Option<&OsString>, workspace: &Path) -> Option<PathBuf> {
    let is_apart = |folder: &PathBuf| folder.is_absolute() && !folder.starts_with(workspace);
    let folders = path.map(std::env::split_paths).into_iter().flatten().filter(is_apart);
    folders.map(|folder| folder.join("git")).find(|program| program.is_file())
}

/// Writes the settings into `folder`, which is seen as `seen_at` and can be written by no command, and names them in the
/// environment.
pub fn write(workspace: &Path, folder: &Path, seen_at: &Path, environment: &mut BTreeMap<String, OsString>) {
    let settings = program(environment.get("PATH"), workspace).and_then(|git| of_the_user(&git, workspace));
    let mut settings = settings.unwrap_or_default();
    if !settings.iter().any(|(name, _)| name == EXCLUDES) {
        settings.push((EXCLUDES.to_owned(), "~/.config/git/ignore".to_owned()));
    }
    let mut text = String::new();
    for (name, value) in &settings {
        let (section, key) = name.rsplit_once('.').unwrap_or((name, ""));
        let (key, value) = match name.as_str() {
            // What the user never wants added is not added here either.
            EXCLUDES => (key, excluded(value, (workspace, folder), seen_at)),
            HOOKS => (key, hooks(value, folder, seen_at)),
            // Without its program, which may need keys, git must refuse what goes through it.
            _ if section.starts_with("filter.") && !value.starts_with("git-lfs ") => {
                ("required", Some("true".to_owned()))
            }
            _ => (key, Some(value.clone())),
        };
        let Some(value) = value else { continue };
        let quoted = |text: &str| {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
        };
        let section = section
            .split_once('.')
            .map_or_else(|| section.to_owned(), |(section, of)| format!("{section} {}", quoted(of)));
        text.push_str(&format!("[{section}]\n\t{key} = {}\n", quoted(&value)));
    }
    if fs::write(folder.join("config"), text).is_ok() {
        environment.insert("GIT_CONFIG_GLOBAL".to_owned(), seen_at.join("config").into_os_string());
    }
    environment.insert("GIT_CONFIG_COUNT".to_owned(), FORCED.len().to_string().into());
    for (i, (name, value)) in FORCED.iter().enumerate() {
        environment.insert(format!("GIT_CONFIG_KEY_{i}"), (*name).into());
        environment.insert(format!("GIT_CONFIG_VALUE_{i}"), (*value).into());
    }
    // There is no terminal: a message that is there already is taken as it is, and nothing waits for a password.
    environment.insert("GIT_EDITOR".to_owned(), "true".into());
    environment.insert("GIT_TERMINAL_PROMPT".to_owned(), "0".into());
}

/// Names in small letters with their values, from the user's own files and from no repository's.
fn of_the_user(git: &Path, workspace: &Path) -> Option<Vec<(String, String)>> {
    let mut command = Command::new(git);
    command
        .args(["config", "--global", "--includes", "--null", "--get-regexp", KNOWN])
        .current_dir(workspace);
    command
        .env_clear()
        .envs(["HOME", "XDG_CONFIG_HOME"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let since = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if since.elapsed() > LONGEST {
            // One that ended meanwhile cannot be killed, and is waited for all the same.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('\n'));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The path that a setting names.
fn of_home(named: &str) -> Option<PathBuf> {
    match named.strip_prefix("~/") {
        Some(under) => Some(PathBuf::from(std::env::var_os("HOME")?).join(under)),
        None => Some(PathBuf::from(named)),
    }
}

/// A copy of the file that says what git ignores everywhere. The folder that holds the place of an absent `.agon` is no
/// file of the user's, which `stash -u` and `clean` would take away.
fn excluded(named: &str, (workspace, folder): (&Path, &Path), seen_at: &Path) -> Option<String> {
    let users = host_files::text(&of_home(named)?, 64 * 1024).unwrap_or_default();
    let held = if workspace.join(".agon").exists() { "" } else { "\n/.agon/\n" };
    fs::write(folder.join("ignore"), format!("{users}{held}")).ok()?;
    seen_at.join("ignore").to_str().map(str::to_owned)
}

/// A copy of the hooks that run in every repository of the user's. A path in the repository is its own.
fn hooks(named: &str, folder: &Path, seen_at: &Path) -> Option<String> {
    let hooks = of_home(named)?;
    if !hooks.is_absolute() {
        return Some(named.to_owned());
    }
    let copies = folder.join("hooks");
    fs::create_dir_all(&copies).ok()?;
    let is_run =
        |path: &Path| fs::metadata(path).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0);
    for entry in fs::read_dir(hooks).into_iter().flatten().flatten().filter(|entry| is_run(&entry.path())) {
        let text = host_files::head(&entry.path(), MOST_HOOK + 1);
        // One that cannot be copied fails, for left out it would be no check any more.
        let text = text.filter(|text| text.len() as u64 <= MOST_HOOK).unwrap_or(b"#!/bin/false\n".to_vec());
        let copy = copies.join(entry.file_name());
        fs::write(&copy, text).ok()?;
        fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).ok()?;
    }
    seen_at.join("hooks").to_str().map(str::to_owned)
}
