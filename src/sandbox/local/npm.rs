//! Keeps `npm ci` from emptying what it cannot fill: it removes `node_modules` before it looks whether every package can be
//! had.

/// The names of the command.
const NAMES: [&str; 4] = ["ci", "clean-install", "ic", "install-clean"];

/// A shell function in the place of npm: the folder is moved aside, and back where the command fails.
const GUARD: &str = r#"npm() {
  case ${1-} in ci|clean-install|ic|install-clean) ;; *) command npm "$@"; return;; esac
  agon_aside=.node_modules-of-agon
  # One that was stopped has left it.
  if [ -e "$agon_aside" ]; then rm -rf node_modules && mv "$agon_aside" node_modules; fi
  if ! mv node_modules "$agon_aside" 2>/dev/null; then command npm "$@"; return; fi
  trap 'rm -rf node_modules && mv .node_modules-of-agon node_modules; exit 143' TERM
  command npm "$@" && agon_npm=0 || agon_npm=$?
  trap - TERM
  if [ "$agon_npm" = 0 ]; then rm -rf "$agon_aside"; return; fi
  rm -rf node_modules && mv "$agon_aside" node_modules
  echo 'agon: `npm ci` failed, so `node_modules` is as it was before' >&2
  return "$agon_npm"
}
"#;

/// The command line, with the function before it where it is of use.
pub fn guarded(command: &str) -> String {
    let words: Vec<&str> = command.split(|c: char| c.is_whitespace() || ";&|()".contains(c)).collect();
    let is_met = words.contains(&"npm") && NAMES.iter().any(|name| words.contains(name));
    if is_met { format!("{GUARD}{command}") } else { command.to_owned() }
}
