//! The command `apply`: what a fork changed, brought home, laid out for the terminal.

use crate::cli::args::ApplyArgs;
use crate::cli::error::{DONE, FAILED, Failure};
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::Environment;
use crate::host::Host;
use crate::projection::safe_text::shown;
use crate::protocol::text::name_shown;

/// Brings a fork home, or shows what that would do.
pub async fn run(typed: &ApplyArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let root = typed.workspace.as_deref().map(plan::folder).transpose()?;
    let applied = Host::of(&environment)?.apply(&typed.fork, root.as_deref(), typed.preview).await?;
    let diff = &applied.plan.diff;
    let mut text = String::new();
    for path in diff.files.iter().filter(|path| !applied.failed.iter().any(|(failed, _)| failed == *path)) {
        let is_in = |list: &[String]| list.contains(path);
        let verb = match (is_in(&applied.plan.merged), is_in(&diff.added), is_in(&diff.removed)) {
            (true, ..) => "merged",
            (_, true, _) => "added",
            (.., true) => "removed",
            _ => "changed",
        };
        text += &format!("  {verb:<9} {}\n", name_shown(path));
    }
    if diff.files.is_empty() {
        text += "  no file changes\n";
    }
    let conflicts = applied.plan.conflicts.iter().map(|(path, why)| (path, *why));
    for (path, why) in conflicts.chain(applied.failed.iter().map(|(path, why)| (path, why.as_str()))) {
        text += &format!("  conflict  {}: {why}\n", name_shown(path));
    }
    let (word, root) = (if typed.preview { "would apply" } else { "applied" }, applied.root.display());
    output.data(&shown(&format!("{word}: {} to {root}\n{text}", typed.fork)))?;
    if typed.preview {
        return output.data(&shown(&diff.diff)).map(|()| DONE);
    }
    Ok(if applied.is_whole() { DONE } else { FAILED })
}
