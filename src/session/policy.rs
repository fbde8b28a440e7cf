//! Who may do what: rules are matched against what a prepared call would do; reads nothing else.

mod commands;
mod hosts;
mod judge;

use crate::protocol::event::Plan;
use crate::protocol::host::{Target, speaks_of};
use crate::protocol::names::Names;
use crate::protocol::need::{Need, WILDCARDS};
use crate::protocol::spec::{Action, DeniedPath, Policy, Risk, Rule};
use crate::protocol::text::{glob_literal, is_glob};

pub use commands::{restored, said, understood};
pub use hosts::on_hosts;
pub use judge::{Grant, Line, Rights, Ruling, Shelter, allows, judge, lines, opens};

/// The rules that hold unless a person switches them off: what commonly holds passwords and private keys is neither
/// read nor written. They see paths, so a command is bounded by its sandbox and not by them.
pub fn standard() -> Policy {
    denying(&Names::standard().secret, &Names::standard().except)
}

/// The same for these names of files, but for the exceptions.
pub fn denying(secrets: &[String], except: &[String]) -> Policy {
    // Each is a glob by itself, so that none of them changes what the others mean.
    let names = secrets.iter().map(|name| if is_glob(name) { name } else { "*" });
    let path = format!("{{,*/}}{{{}}}", names.collect::<Vec<_>>().join(","));
    let rule = Rule {
        path: Some(path),
        except: except.iter().map(|name| format!("{{,*/}}{name}")).collect(),
        why: Some("it commonly holds passwords or keys".to_owned()),
        ..Rule::named("default: files that hold secrets", Action::Deny)
    };
    Policy { rules: vec![rule] }
}

/// The paths that no tool may read, for sandboxes, which know no tools.
pub fn denied_to_all(policy: &Policy) -> Vec<DeniedPath> {
    let speaks = |rule: &&Rule| {
        rule.action == Action::Deny
            && (rule.tool.is_none() && !names_more(rule) && rule.cwd.is_none())
            && rule.risk.is_none_or(|risk| risk == Risk::Read)
    };
    policy.rules.iter().filter(speaks).filter_map(Rule::denied).collect()
}

/// The paths a tool may not touch, for tools that come upon files while they run; `risks` are what the tool and
/// the call may do.
pub fn denied_paths(policy: &Policy, tool: &str, risks: &[Risk]) -> Vec<DeniedPath> {
    rules_on(policy, Action::Deny, tool, risks).filter_map(Rule::denied).collect()
}

/// The paths that may not be read where a person mentions them: what `read_file` is denied. A rule that
/// asks is answered by the mention itself, unless the mention may be a stranger's.
pub fn denied_to_reader(policy: &Policy, is_foreign: bool) -> Vec<DeniedPath> {
    let actions: &[Action] = if is_foreign { &[Action::Deny, Action::Ask] } else { &[Action::Deny] };
    let rules = actions.iter().flat_map(|action| rules_on(policy, *action, "read_file", &[Risk::Read]));
    rules.map(|rule| rule.denied().unwrap_or_else(|| DeniedPath::of("**"))).collect()
}

/// The rules with this action on a tool of these risks, whatever its command.
fn rules_on<'a>(
    policy: &'a Policy,
    action: Action,
    tool: &'a str,
    risks: &'a [Risk],
) -> impl Iterator<Item = &'a Rule> {
    policy.rules.iter().filter(move |rule| {
        rule.action == action
            && !names_more(rule)
            && rule.risk.is_none_or(|named| risks.contains(&named))
            && rule.tool.as_deref().is_none_or(|pattern| action.fits(pattern, tool))
    })
}

/// True for a rule that speaks of more than paths.
fn names_more(rule: &Rule) -> bool {
    rule.command.is_some() || !rule.needs.is_empty() || rule.call.is_some()
}

/// Checks that every pattern of a policy can be read. The error names rule, field and pattern.
pub fn check(policy: &Policy) -> Result<(), String> {
    for rule in &policy.rules {
        let fields = [("tool", &rule.tool), ("command", &rule.command), ("path", &rule.path)];
        let named = fields.into_iter().filter_map(|(field, pattern)| Some((field, pattern.as_ref()?)));
        for (field, pattern) in named.chain(rule.needs.iter().map(|pattern| ("needs", pattern))) {
            if !is_glob(pattern) {
                return Err(format!("rule `{}`: `{field} = \"{pattern}\"` is not a glob pattern", rule.name));
            }
        }
        let is_known = |need: &String| {
            let kind = need.split(':').next().unwrap_or_default();
            Need::is_pattern(need) || kind.contains(WILDCARDS)
        };
        if let Some(need) = rule.needs.iter().find(|need| !is_known(need)) {
            return Err(format!(
                "rule `{}`: `needs = \"{need}\"` names no need; expected `git`, `unconfined`, `host:NAME`, `port:N`, \
                 `tool:SERVER/TOOL` or `confirm:SERVER/TOOL`",
                rule.name
            ));
        }
    }
    Ok(())
}

fn matches(rule: &Rule, tool: &str, plan: &Plan) -> bool {
    circumstances_fit(rule, tool, plan) && needs_fit(rule, plan)
}

fn circumstances_fit(rule: &Rule, tool: &str, plan: &Plan) -> bool {
    let tool_fits = rule.tool.as_deref().is_none_or(|pattern| rule.action.fits(pattern, tool));
    let needs = |risk: Risk| plan.needs.iter().any(|need| need.risk() == Some(risk));
    let risk_fits =
        rule.risk.is_none_or(|risk| risk == plan.risk || (rule.action != Action::Allow && needs(risk)));
    let cwd_fits = rule.cwd.as_ref().is_none_or(|cwd| *cwd == plan.cwd);
    let call_fits = rule.call.as_ref().is_none_or(|digest| *digest == plan.digest);
    tool_fits && risk_fits && cwd_fits && call_fits
}

/// True for an allow rule that covers every need of a call.
fn covers(rule: &Rule, tool: &str, plan: &Plan) -> bool {
    rule.action == Action::Allow && matches(rule, tool, plan)
}

/// True for a rule that allows this need of a call by its name, where it fits whatever else the rule speaks of.
fn names(rule: &Rule, need: &Need, tool: &str, plan: &Plan) -> bool {
    rule.action == Action::Allow
        && other_fits(rule, need)
        && circumstances_fit(rule, tool, plan)
        && line_fits(rule, plan)
        && (rule.path.is_none()
            || plan.needs.iter().all(|need| need.path().is_none() || path_fits(rule, need)))
}

/// True for a rule whose command is the line of the call; where it allows also one whose command is each of the line's.
fn line_fits(rule: &Rule, plan: &Plan) -> bool {
    let one = |line: &str| command_fits(rule, &Need::Command(line.to_owned()));
    let each =
        |line: &str| understood(line).is_some_and(|commands| commands.iter().all(|command| one(command)));
    rule.command.is_none()
        || plan.command().is_some_and(|line| one(line) || (rule.action == Action::Allow && each(line)))
}

/// Each kind of need that a rule names must be among the call's. An allow also covers every need of the call; further needs
/// beside its command or its paths are what the call may have.
fn needs_fit(rule: &Rule, plan: &Plan) -> bool {
    let path = |need: &Need| need.path().is_some() && path_fits(rule, need);
    let command = |need: &Need| matches!(need, Need::Command(_)) && command_fits(rule, need);
    let other = |need: &Need| other_fits(rule, need);
    let any = |fits: &dyn Fn(&Need) -> bool| plan.needs.iter().any(fits);
    let may_lack = rule.action == Action::Allow && (rule.path.is_some() || rule.command.is_some());
    let is_met = (rule.path.is_none() || any(&path))
        && (rule.command.is_none() || any(&command))
        && (rule.needs.is_empty() || may_lack || any(&other));
    // The files of such a command are named in its line already.
    let is_of_command =
        |need: &Need| need.path().is_some() && rule.command.is_some() && judge::puts_back(plan);
    let is_covered = |need: &Need| is_covered(rule, need) || is_of_command(need);
    is_met && (rule.action != Action::Allow || plan.needs.iter().all(is_covered))
}

/// True for a need that an allow speaks of. One that names no need at all speaks of all that stay in the sandbox.
fn is_covered(rule: &Rule, need: &Need) -> bool {
    let names_none = rule.path.is_none() && rule.command.is_none() && rule.needs.is_empty();
    match need {
        _ if names_none => !need.leaves_sandbox(),
        Need::Read(_) | Need::Write(_) => path_fits(rule, need),
        Need::Command(_) => command_fits(rule, need),
        _ => other_fits(rule, need),
    }
}

fn path_fits(rule: &Rule, need: &Need) -> bool {
    let is_excepted = |path: &str| rule.except.iter().any(|of| Action::Allow.fits(of, path));
    let pattern = rule.path.as_deref();
    pattern
        .zip(need.path())
        .is_some_and(|(pattern, base)| rule.action.fits(pattern, &base.path) && !is_excepted(&base.path))
}

fn command_fits(rule: &Rule, need: &Need) -> bool {
    let (Some(pattern), Need::Command(line)) = (&rule.command, need) else { return false };
    match rule.action {
        // Line by line as it is, or a pattern over the one simple command that the line is.
        Action::Allow => {
            let is_one = |line: &str| match understood(line).as_deref() {
                Some([one]) => command_matches(pattern, one, rule.action),
                _ => false,
            };
            glob_literal(pattern).as_deref() == Some(line) || is_one(line)
        }
        _ => commands::found(line).iter().any(|one| command_matches(pattern, one, rule.action)),
    }
}

/// True for a command that a pattern fits; one that ends in ` *` fits the command without arguments as well.
fn command_matches(pattern: &str, command: &str, action: Action) -> bool {
    let bare = pattern.strip_suffix(" *").is_some_and(|pattern| action.fits(pattern, command));
    bare || action.fits(pattern, command)
}

/// Paths and commands have fields of their own, so that no pattern of the others stretches to them. A host is judged as at
/// the connection: what forbids forbids one of its ports, what allows allows all of them.
fn other_fits(rule: &Rule, need: &Need) -> bool {
    let targets = match need {
        Need::Read(_) | Need::Write(_) | Need::Command(_) | Need::Unknown(_) => return false,
        Need::Host(host) => Target::opened(host),
        _ => Vec::new(),
    };
    let allows = rule.action == Action::Allow;
    rule.needs.iter().any(|pattern| {
        let mut each = targets.iter().map(|target| speaks_of(rule.action, pattern, target, false));
        match targets.is_empty() {
            true => rule.action.fits(pattern, &need.name()),
            false if allows => each.all(|fits| fits),
            false => each.any(|fits| fits),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::PathBase;
    use crate::protocol::spec::{DeniedPaths, PermissionLevel};

    fn plan(risk: Risk, command: Option<&str>, paths: &[&str]) -> Plan {
        let paths = paths.iter().map(|path| PathBase { path: (*path).to_owned(), sha256: None });
        let files = paths.map(if risk == Risk::Read { Need::Read } else { Need::Write });
        let needs = command.map(|line| Need::Command(line.to_owned())).into_iter().chain(files).collect();
        Plan { needs, cwd: String::new(), preview: String::new(), risk, digest: String::new() }
    }

    /// At the level `ask`, without a sandbox.
    fn rule(policy: &Policy, grants: &[Rule], tool: &str, plan: &Plan) -> Ruling {
        let (level, shelter) = (PermissionLevel::Ask, Shelter::default());
        let grants: Vec<Grant> = grants.iter().map(|rule| Grant { rule: rule.clone(), shelter }).collect();
        judge(&Rights { policy, grants: &grants, level, read_only: false, shelter }, tool, plan)
    }

    fn session_grant(tool: &str, plan: &Plan) -> Rule {
        Rule::granting("granted for this session", tool, plan)
    }

    /// A call with these needs and this digest.
    fn needing(needs: &[Need], digest: &str) -> Plan {
        Plan { needs: needs.to_vec(), digest: digest.to_owned(), ..plan(Risk::Execute, None, &[]) }
    }

    /// Name, command pattern, path pattern, action, priority.
    type Row<'a> = (&'a str, Option<&'a str>, Option<&'a str>, Action, i32);

    fn policy(rows: &[Row<'_>]) -> Policy {
        let rules = rows
            .iter()
            .map(|(name, command, path, action, priority)| Rule {
                command: command.map(str::to_owned),
                path: path.map(str::to_owned),
                priority: *priority,
                ..Rule::named(*name, *action)
            })
            .collect();
        Policy { rules }
    }

    #[test]
    fn no_name_of_a_secret_changes_what_the_others_mean() {
        for odd in ["x}{y", "}", "{", "a,b}", "\\", "[", "a[b", "x}", "{,"] {
            let names = [".env".to_owned(), odd.to_owned(), "*.key".to_owned()];
            let policy = denying(&names, &[]);
            check(&policy).unwrap();
            let denied = DeniedPaths::new(&denied_to_all(&policy));
            for path in [".env", "a/.env", "a.key", "b/c/a.key"] {
                assert!(denied.holds(path), "{odd}: {path}");
                let call = plan(Risk::Read, None, &[path]);
                assert_eq!(rule(&policy, &[], "read_file", &call).action, Action::Deny, "{odd}: {path}");
            }
        }
    }

    #[test]
    fn templates_and_certificates_of_authorities_are_no_secrets() {
        let standard = standard();
        let denied = DeniedPaths::new(&denied_to_all(&standard));
        let is_denied = |path: &str| {
            let ruling = rule(&standard, &[], "read_file", &plan(Risk::Read, None, &[path]));
            assert_eq!(denied.holds(path), ruling.action == Action::Deny, "{path}");
            denied.holds(path)
        };
        for path in [".env.example", "a/.env.local.sample", "env/lib/certifi/cacert.pem", "env/ssl/cert.pem"]
        {
            assert!(!is_denied(path), "{path}");
        }
        for path in [".env", ".env.examples", ".env.d/example", "a/cert.pem", "xcacert.pem", "cacert.pem.key"]
        {
            assert!(is_denied(path), "{path}");
        }
    }

    #[test]
    fn deny_wins_whatever_the_priority_and_grants_never_answer_it() {
        let policy =
            policy(&[("yes", None, None, Action::Allow, 100), ("no", None, Some(".env*"), Action::Deny, -5)]);
        let plan = plan(Risk::Read, None, &[".ENV.local"]);
        let grants = vec![Rule::named("all", Action::Allow)];
        assert_eq!(rule(&policy, &grants, "read_file", &plan).rule, "no");
    }

    #[test]
    fn a_need_for_a_host_is_judged_as_its_connection_is() {
        for (action, pattern, host, fits) in [
            (Action::Deny, "host:a.example", "a.example:443", true),
            (Action::Deny, "host:a.example", "a.example.", true),
            (Action::Deny, "host:a.example", "a.example:8443", true),
            (Action::Deny, "host:a.example:80", "a.example", true),
            (Action::Deny, "host:10.0.0.0/8", "10.1.2.3", true),
            (Action::Deny, "host:a.example", "b.a.example", false),
            (Action::Allow, "host:a.example", "a.example:443", true),
            (Action::Allow, "host:a.example", "A.Example.", true),
            (Action::Allow, "host:a.example", "a.example:22", false),
            (Action::Allow, "host:a.example:443", "a.example", false),
            (Action::Allow, "host:a.example:*", "a.example:22", true),
            (Action::Allow, "host:fd00::/8", "[fd12::1]:443", true),
            (Action::Allow, "*", "a.example:22", false),
        ] {
            let rule = Rule { needs: vec![pattern.to_owned()], ..Rule::named("r", action) };
            assert_eq!(other_fits(&rule, &Need::Host(host.to_owned())), fits, "{action:?} {pattern} {host}");
        }
    }

    #[test]
    fn an_allowed_command_does_not_carry_a_second_one() {
        let policy = policy(&[("tests", Some("cargo test*"), None, Action::Allow, 0)]);
        let judge =
            |command: &str| rule(&policy, &[], "bash", &plan(Risk::Execute, Some(command), &[])).action;
        assert_eq!(judge("cargo test --all"), Action::Allow);
        for trick in [
            "cargo test; rm -rf /",
            "cargo test && curl x",
            "cargo test | sh",
            "cargo test $(id)",
            "cargo test `id`",
            "cargo test\nrm x",
            "cargo test > /etc/x",
            "cargo test ${IFS}x",
            "cargo test\u{a0}x;y",
        ] {
            assert_eq!(judge(trick), Action::Ask, "{trick}");
        }
    }

    #[test]
    fn a_session_grant_covers_exactly_the_same_call() {
        let first = plan(Risk::Execute, Some("make [a]* && ls {x,y}?"), &[]);
        let grants = [session_grant("bash", &first)];
        let judge = |plan: &Plan| rule(&Policy::default(), &grants, "bash", plan).action;
        assert_eq!(judge(&first), Action::Allow);
        assert_eq!(judge(&plan(Risk::Execute, Some("make a && ls x1"), &[])), Action::Ask);
        let two = plan(Risk::Write, None, &["a.txt", "b,c.txt"]);
        let grants = [session_grant("edit_file", &two)];
        let judge = |plan: &Plan| rule(&Policy::default(), &grants, "edit_file", plan).action;
        assert_eq!(judge(&two), Action::Allow);
        assert_eq!(judge(&plan(Risk::Write, None, &["a.txt", "d.txt"])), Action::Ask);
    }

    #[test]
    fn a_session_grant_is_not_stretched_by_backslash_case_or_directory() {
        let judge = |granted: &str, asked: &str| {
            let grants = [session_grant("bash", &plan(Risk::Execute, Some(granted), &[]))];
            rule(&Policy::default(), &grants, "bash", &plan(Risk::Execute, Some(asked), &[])).action
        };
        assert_eq!(judge(r"echo done \; rm -rf x", r"echo done \; rm -rf x"), Action::Allow);
        assert_eq!(judge(r"echo done \; rm -rf x", "echo done ; rm -rf x"), Action::Ask);
        assert_eq!(judge(r"rm -rf foo\ bar", "rm -rf foo bar"), Action::Ask);
        assert_eq!(judge("git branch -d x", "git branch -D x"), Action::Ask);
        let here = plan(Risk::Execute, Some("rm -rf build"), &[]);
        let there = Plan { cwd: "a".into(), ..here.clone() };
        let grants = [session_grant("bash", &there)];
        assert_eq!(rule(&Policy::default(), &grants, "bash", &there).action, Action::Allow);
        assert_eq!(rule(&Policy::default(), &grants, "bash", &here).action, Action::Ask);
    }

    #[test]
    fn a_denied_command_is_seen_anywhere_in_a_line() {
        let policy = policy(&[("no push", Some("git push*"), None, Action::Deny, 0)]);
        for line in [
            "git push",
            " git push -f",
            "true; git push",
            "a && git push",
            "(git push)",
            "x | GIT PUSH",
            "git\tpush",
            "A=1 git  push",
            "2>&1 git push",
        ] {
            let ruling = rule(&policy, &[], "bash", &plan(Risk::Execute, Some(line), &[]));
            assert_eq!(ruling.action, Action::Deny, "{line}");
        }
    }

    #[test]
    fn allow_by_path_needs_every_path_and_deny_needs_one() {
        let allow = policy(&[("src", None, Some("src/**"), Action::Allow, 0)]);
        assert_eq!(rule(&allow, &[], "w", &plan(Risk::Write, None, &["src/a", "b"])).action, Action::Ask);
        let deny = policy(&[("no", None, Some("**/*.pem"), Action::Deny, 0)]);
        assert_eq!(
            rule(&deny, &[], "w", &plan(Risk::Write, None, &["src/a", "k/b.pem"])).action,
            Action::Deny
        );
    }

    #[test]
    fn an_unreadable_pattern_is_named() {
        let error = check(&policy(&[("odd", Some("[a"), None, Action::Allow, 0)])).unwrap_err();
        assert!(error.contains("odd") && error.contains("[a"), "{error}");
        let needs = |need: &str| {
            let rule = Rule { needs: vec![need.to_owned()], ..Rule::named("odd", Action::Deny) };
            check(&Policy { rules: vec![rule] })
        };
        for known in [
            "*",
            "host*",
            "{host,port}:*",
            "git",
            "unconfined",
            "host:x",
            "port:5*",
            "port:80",
            "tool:a/b",
            "confirm:a/b",
        ] {
            assert_eq!(needs(known), Ok(()), "{known}");
        }
        for unknown in ["hosts:evil.example", "network", "Port:5432", "port:x", "port:0", "host:", "tool:"] {
            assert!(needs(unknown).unwrap_err().contains("names no need"), "{unknown}");
        }
    }

    #[test]
    fn a_session_grant_of_a_call_whose_needs_say_nothing_covers_that_call_only() {
        for needs in [&[][..], &[Need::Tool("tracker/close".to_owned())], &[Need::Unconfined]] {
            let (shown, other) = (needing(needs, "close 12"), needing(needs, "close everything"));
            let grants = [session_grant("close_issue", &shown)];
            let judge = |plan: &Plan| rule(&Policy::default(), &grants, "close_issue", plan).action;
            assert_eq!((judge(&shown), judge(&other)), (Action::Allow, Action::Ask), "{needs:?}");
        }
    }

    #[test]
    fn a_grant_covers_no_need_that_was_not_shown() {
        let line = Need::Command("cargo publish".to_owned());
        let host = |name: &str| Need::Host(name.to_owned());
        let file = Need::Write(PathBase { path: "a".to_owned(), sha256: None });
        let granted = |shown: &[Need], asked: &[Need]| {
            let grants = [session_grant("bash", &needing(shown, "1"))];
            rule(&Policy::default(), &grants, "bash", &needing(asked, "2")).action == Action::Allow
        };
        let both = [line.clone(), host("index.example.org")];
        assert!(granted(&both, &both) && granted(&both[..1], &both[..1]));
        for more in [host("index.example.org"), Need::Port(5432), Need::Git, Need::Unconfined, file.clone()] {
            assert!(!granted(&both[..1], &[line.clone(), more.clone()]), "{more:?}");
        }
        assert!(!granted(&both, &[line.clone(), host("evil.example")]));
        assert!(
            !granted(std::slice::from_ref(&file), &[file.clone(), line]),
            "a grant for a file is none for a command"
        );
    }

    #[test]
    fn what_leaves_the_sandbox_is_allowed_by_a_rule_that_names_it() {
        let plan =
            needing(&[Need::Command("npm ci".to_owned()), Need::Host("packages.example.org".to_owned())], "");
        let judge = |command: Option<&str>, needs: &[&str]| {
            let allow = Rule {
                command: command.map(str::to_owned),
                needs: needs.iter().map(|need| (*need).to_owned()).collect(),
                ..Rule::named("r", Action::Allow)
            };
            rule(&Policy { rules: vec![allow] }, &[], "bash", &plan).action
        };
        assert_eq!(judge(None, &[]), Action::Ask, "today's rule for everything is none for the network");
        assert_eq!(judge(Some("npm *"), &[]), Action::Ask);
        assert_eq!(judge(Some("npm *"), &["host:*.example.org"]), Action::Allow);
        assert_eq!(judge(Some("npm *"), &["*"]), Action::Allow);
        assert_eq!(judge(None, &["*"]), Action::Ask, "`needs` never stretches to a command");
        let deny = Rule { needs: vec!["host:*".to_owned()], ..Rule::named("no", Action::Deny) };
        let policy = |rule: &Rule| Policy { rules: vec![rule.clone()] };
        assert_eq!(rule(&policy(&deny), &[], "bash", &plan).action, Action::Deny);
        let inside = needing(&plan.needs[..1], "");
        assert_eq!(rule(&policy(&deny), &[], "bash", &inside).action, Action::Ask);
        // A tool that says it only looks, but names a host, is asked about.
        let sly = Plan { risk: Risk::Read, ..needing(&plan.needs[1..], "") };
        assert_eq!(rule(&Policy::default(), &[], "look", &sly).action, Action::Ask);
    }
}
