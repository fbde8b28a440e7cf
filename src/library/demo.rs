//! The built-in demonstration: a small project, a task and a script that answers like a model; runs nothing.

use std::path::Path;

/// Name of the provider that answers by the script, and of the model it pretends to be.
pub const PROVIDER: &str = "demo";

/// The demo's model.
pub const MODEL: &str = "demo/script";

/// The answers.
pub const SCRIPT: &str = include_str!("demo/run/script.toml");

/// The task.
pub const PROMPT: &str = include_str!("demo/run/prompt.txt");

/// The project: name and content of each file.
const PROJECT: &[(&str, &str)] = &[
    ("check.sh", include_str!("demo/run/check.sh")),
    ("clock.sh", include_str!("demo/run/clock.sh")),
    ("shift.sh", include_str!("demo/run/shift.sh")),
];

/// Writes the project into a folder, replacing nothing.
pub fn write_project(folder: &Path) -> std::io::Result<()> {
    for (name, text) in PROJECT {
        let mut file = std::fs::File::create_new(folder.join(name))?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
    }
    Ok(())
}
