//! Who is to work on a task and with which flags, read from what was written; knows no persona and no blueprint.

/// Who works on a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worker {
    /// One spark.
    #[default]
    Solo,
    /// The roles of a blueprint.
    Squad,
    /// Personas in phases.
    Debate,
}

impl Worker {
    /// The worker of a name: `solo`, `squad` or `debate`.
    pub fn named(name: &str) -> Option<Worker> {
        [Worker::Solo, Worker::Squad, Worker::Debate].into_iter().find(|worker| worker.word() == name)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Worker::Solo => "solo",
            Worker::Squad => "squad",
            Worker::Debate => "debate",
        }
    }
}

/// Who works, and the flags that were written for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeRequest {
    /// Who works.
    pub worker: Worker,
    /// Flags and their values, as on the command line.
    pub flags: Vec<String>,
}

impl ModeRequest {
    /// A wish without flags.
    pub fn of(worker: Worker) -> Self {
        ModeRequest { worker, flags: Vec::new() }
    }

    /// What stands after `/squad` or `/debate`: flags, and then the task.
    pub fn of_task(worker: Worker, rest: &str) -> Result<(ModeRequest, &str), String> {
        let (flags, text) = split(rest)?;
        if text.is_empty() {
            let what = if worker == Worker::Debate { "a question" } else { "a task" };
            return Err(format!("/{} expects {what}", worker.word()));
        }
        Ok((ModeRequest { worker, flags }, text))
    }

    /// What stands after `/mode`: who works on the tasks to come, and flags.
    pub fn of_mode(rest: &str) -> Result<ModeRequest, String> {
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let worker = Worker::named(word).ok_or("/mode expects solo, squad or debate")?;
        let (flags, surplus) = split(rest)?;
        match surplus {
            "" => Ok(ModeRequest { worker, flags }),
            _ => Err(format!("/mode {word} takes flags only; /{word} gives a task")),
        }
    }
}

/// What stands after `/limits`: flags alone.
pub fn limits(rest: &str) -> Result<Vec<String>, String> {
    match split(rest)? {
        (flags, "") if !flags.is_empty() => Ok(flags),
        _ => Err(
            "/limits expects flags: --max-tokens N, --max-usd DOLLARS, --max-seconds N, --max-steps N|none"
                .to_owned(),
        ),
    }
}

/// The flags a text begins with, and the rest of it, which is not touched: an apostrophe in a task is no quote.
fn split(text: &str) -> Result<(Vec<String>, &str), String> {
    let mut flags = Vec::new();
    let mut rest = text.trim_start();
    while let Some(flag) = rest.strip_prefix("--") {
        let name = flag.split(|c: char| c.is_whitespace() || c == '=').next().unwrap_or_default();
        rest = &flag[name.len()..];
        if name.is_empty() {
            return Ok((flags, rest.trim_start()));
        }
        let value = rest.trim_start_matches(['=', ' ', '\t']);
        let (value, after) = value_of(value).ok_or_else(|| format!("--{name} expects a value"))?;
        flags.push(format!("--{name}={value}"));
        rest = after.trim_start();
    }
    Ok((flags, rest))
}

/// A word, or what stands between two quotes.
fn value_of(text: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let (value, rest) = inner.split_once(quote)?;
            return Some((value, rest));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0 && !text.starts_with("--")).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_first_and_the_rest_stays_as_it_is() {
        let (flags, rest) = split("--check 'cargo test' --blueprint=pair  don't --touch it\nnow").unwrap();
        assert_eq!(flags, ["--check=cargo test", "--blueprint=pair"]);
        assert_eq!(rest, "don't --touch it\nnow");
        assert_eq!(split("-- --what is this").unwrap(), (vec![], "--what is this"));
        assert_eq!(split("--check").unwrap_err(), "--check expects a value");
        assert_eq!(split("--check \"open").unwrap_err(), "--check expects a value");
        assert_eq!(split("--rounds --moderator x").unwrap_err(), "--rounds expects a value");
    }
}
