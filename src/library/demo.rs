//! The built-in demonstrations: small projects, tasks and scripts that answer like models; runs nothing.

pub mod debate;

use std::path::Path;

/// Name of the provider that answers by the script, and of the model it pretends to be.
pub const PROVIDER: &str = "demo";

/// The demo's model.
pub const MODEL: &str = "demo/script";

/// The answers of all stories: each names its own roles.
pub const SCRIPT: &str = concat!(
    include_str!("demo/run/script.toml"),
    "\n",
    include_str!("demo/squad/script.toml"),
    "\n",
    include_str!("demo/debate/script.toml")
);

/// One demonstration.
#[derive(Debug)]
pub struct Story {
    /// The task.
    pub prompt: &'static str,
    /// Checks that run after each turn of a role that writes.
    pub checks: &'static [&'static str],
    /// The project: name and content of each file.
    project: &'static [(&'static str, &'static str)],
}

/// One agent on one task.
pub const RUN: Story = Story {
    prompt: include_str!("demo/run/prompt.txt"),
    checks: &[],
    project: &[
        ("check.sh", include_str!("demo/run/check.sh")),
        ("clock.sh", include_str!("demo/run/clock.sh")),
        ("shift.sh", include_str!("demo/run/shift.sh")),
    ],
};

/// A squad on one task.
pub const SQUAD: Story = Story {
    prompt: include_str!("demo/squad/prompt.txt"),
    checks: &["sh check.sh"],
    project: &[
        ("check.sh", include_str!("demo/squad/check.sh")),
        ("slug.sh", include_str!("demo/squad/slug.sh")),
        ("post.sh", include_str!("demo/squad/post.sh")),
    ],
};

/// Personas on a question about the project of the run.
pub const DEBATE: Story =
    Story { prompt: include_str!("demo/debate/topic.txt"), checks: &[], project: RUN.project };

impl Story {
    /// Writes the project into a folder, replacing nothing.
    pub fn write_project(&self, folder: &Path) -> std::io::Result<()> {
        for (name, text) in self.project {
            let mut file = std::fs::File::create_new(folder.join(name))?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
        }
        Ok(())
    }
}
