//! What a container shows of itself when it is started: facts looked at from within; knows no engine.

use super::plan::{ContainerPlan, MountSettings};

/// A fact in words, a shell test that holds where it is one, and whether a plan claims it. `$0` is a file outside,
/// `$1` the workspace.
struct Fact {
    words: &'static str,
    test: &'static str,
    is_claimed: fn(&ContainerPlan) -> bool,
}

const FACTS: &[Fact] = &[
    Fact {
        words: "files outside are not seen",
        test: "[ ! -e \"$0\" ]",
        is_claimed: |plan| plan.settings.mounts.is_empty(),
    },
    Fact {
        words: "the system cannot be changed",
        test: "! (: >/.agon-probe) && ! (: >/etc/.agon-probe)",
        is_claimed: |_| true,
    },
    Fact {
        words: "`.git` and `.agon` cannot be changed",
        // Writing through a link that leads nowhere would make what it leads to.
        test: "for n in .git .agon; do if [ -L \"$1/$n\" ] && [ ! -e \"$1/$n\" ]; then ok=no; \
               else ! (: >\"$1/$n/.agon-probe\") && ! (: >>\"$1/$n\") || ok=no; fi; done; [ \"$ok\" != no ]",
        is_claimed: |_| true,
    },
    Fact {
        words: "the workspace cannot be changed",
        test: "! (: >\"$1/.agon-probe\")",
        is_claimed: |plan| !plan.writable,
    },
    Fact {
        words: "there is no network",
        test: "{ read -r head; ! read -r route; } </proc/net/route",
        // A socket that is shown may lead anywhere, and a folder may hold one.
        is_claimed: |plan| {
            plan.settings.network == "none" && plan.settings.mounts.iter().all(MountSettings::is_file)
        },
    },
    Fact {
        words: "no capability is left",
        test: "[ \"$caps$bound\" = 00000000000000000000000000000000 ]",
        is_claimed: |_| true,
    },
    Fact { words: "no right can be gained inside", test: "[ \"$nnp\" = 1 ]", is_claimed: |_| true },
    Fact {
        words: "system calls are filtered",
        test: "[ \"$filter\" = 2 ]",
        is_claimed: |plan| plan.traits.seccomp,
    },
];

/// The script that looks. Only what a shell has built in is used. Writing is tried, since `[ -w … ]` of some shells
/// looks at permission bits alone; in subshells, since a redirection that fails may end the shell.
pub fn script(plan: &ContainerPlan) -> String {
    let mut script =
        "while read -r key value; do case $key in CapEff:) caps=$value;; CapBnd:) bound=$value;; \
                      NoNewPrivs:) nnp=$value;; Seccomp:) filter=$value;; esac; done </proc/self/status\n"
            .to_owned();
    for (i, fact) in claimed(plan) {
        script.push_str(&format!("if {{ {}; }} 2>/dev/null; then echo held {i}; fi\n", fact.test));
    }
    script
}

/// The facts that the plan claims, all of which held; or the words of those that did not.
pub fn read(plan: &ContainerPlan, said: &str) -> Result<Vec<String>, String> {
    let held: Vec<usize> = said.lines().filter_map(|line| line.strip_prefix("held ")?.parse().ok()).collect();
    let missing: Vec<&str> =
        claimed(plan).filter(|(i, _)| !held.contains(i)).map(|(_, fact)| fact.words).collect();
    match missing.as_slice() {
        [] => Ok(claimed(plan).map(|(_, fact)| fact.words.to_owned()).collect()),
        missing => Err(missing.join("; ")),
    }
}

fn claimed(plan: &ContainerPlan) -> impl Iterator<Item = (usize, &'static Fact)> {
    FACTS.iter().enumerate().filter(|(_, fact)| (fact.is_claimed)(plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_fact_that_does_not_hold_is_named() {
        let plan = crate::sandbox::docker::plan::sample();
        let all: String = (0..FACTS.len()).map(|i| format!("held {i}\n")).collect();
        assert_eq!(read(&plan, &all).unwrap().len(), FACTS.len() - 1, "a writable workspace claims less");
        assert_eq!(read(&plan, &all.replace("held 4\n", "")).unwrap_err(), "there is no network");
        let mut open = plan.clone();
        open.settings.network = "bridge".to_owned();
        assert!(read(&open, &all.replace("held 4\n", "")).is_ok(), "what is not claimed need not hold");
        assert!(read(&plan, "").unwrap_err().contains("no capability is left"));
    }
}
