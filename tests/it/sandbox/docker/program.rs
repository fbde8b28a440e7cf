//! The real program with containers: a squad at work, processes killed, images fetched and made, what is told.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::kit::{IMAGE, address};
use crate::support::env::Env;
use crate::support::world::Dice;

/// A place with the tests' own engine and image, and a script that answers every model call.
pub fn place(script: &str) -> Option<Env> {
    let mut env = Env::new();
    env.set("DOCKER_HOST", &address()?);
    env.config(&format!(
        "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n[sandbox]\nkind = \"docker\"\n\
         [sandbox.docker]\nimage = \"{IMAGE}\"\nmemory = \"128m\"\n"
    ));
    env.write("home/mock.toml", script);
    Some(env)
}

pub fn command_script(command: &str) -> String {
    format!(
        "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = {} }} }}]\n\
         [[answer]]\nspark = \"solo\"\ntext = \"done\"\n",
        toml::Value::String(command.to_owned())
    )
}

/// What `agon sandbox ps` lists.
fn listed(env: &Env) -> Vec<Value> {
    let ran = env.run(&["sandbox", "ps", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    let all: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    // Other tests have containers on the same engine; this one's are those of its own state folder.
    all.into_iter().filter(|row| row["owner"] != "other").collect()
}

pub fn until_none_is_left(env: &Env) {
    for _ in 0..400 {
        if listed(env).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{:#?}", listed(env));
}

#[test]
fn a_squad_edits_a_mounted_project_and_its_files_belong_to_the_caller() {
    let Some(env) = place("") else { return };
    let project = env.work().join("a project [x] @y");
    std::fs::create_dir(&project).unwrap();
    let ran = env.run(&["demo", "squad", "--json", "--workspace", project.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran}");
    let entries: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sandbox = &entries[0]["events"][0]["data"]["spec"]["workspace"]["sandbox"];
    assert_eq!(sandbox["kind"], "docker");
    assert!(sandbox["image"].as_str().unwrap().starts_with("agon-test (id sha256:"), "{sandbox}");
    let events = entries.iter().flat_map(|entry| entry["events"].as_array().unwrap());
    let checks: Vec<&Value> = events.filter(|event| event["kind"] == "check_ran").collect();
    assert!(
        !checks.is_empty() && checks.iter().any(|check| check["data"]["body"]["exit"] == 0),
        "{checks:#?}"
    );
    let mine = rustix::process::geteuid().as_raw();
    let mut files = 0;
    let mut folders = vec![project.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            assert_eq!(entry.metadata().unwrap().uid(), mine, "{}", entry.path().display());
            files += 1;
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(files > 2, "{files}");
    assert!(!project.join(".git").exists() && !project.join(".agon").exists());
    assert_eq!(listed(&env), [] as [Value; 0], "nothing is left when the program has ended");
}

#[test]
fn a_solo_spark_sees_no_network_and_its_end_takes_the_container_along() {
    let script = command_script("id -u; ls /sys/class/net; wget -T 1 -qO- http://10.255.255.1; touch made");
    let Some(env) = place(&script) else { return };
    let ran = env.run(&["run", "go", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    let uid = rustix::process::geteuid().as_raw();
    assert!(ran.stdout.contains(&format!("{uid}\\nlo\\n")), "{ran}");
    assert_eq!(std::fs::metadata(env.work().join("made")).unwrap().uid(), uid);
    assert_eq!(listed(&env), [] as [Value; 0]);
}

/// A file system of another mount namespace, as a remote engine's would be.
#[test]
fn a_workspace_the_engine_does_not_see_is_no_fault_of_the_settings() {
    let Some(env) = place("") else { return };
    let inner = "mount -t tmpfs none . && cd \"$PWD\" && mkdir unseen && cd unseen && exec \"$@\"";
    let mut apart = std::process::Command::new("unshare");
    apart.args(["--user", "--map-root-user", "--mount", "sh", "-c", inner, "sh", env!("CARGO_BIN_EXE_agon")]);
    let plain = env.command(&[]);
    apart.args(["run", "go"]).current_dir(env.work()).env_clear();
    apart.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = apart.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if told.starts_with("unshare:") || told.starts_with("mount:") {
        return println!("skipped: {told}");
    }
    assert_eq!(output.status.code(), Some(2), "{told}");
    let folder = env.work().join("unseen");
    assert!(told.contains(&format!("does not see `{}", folder.display())), "{told}");
    assert!(told.contains("DOCKER_HOST") && !told.contains("[sandbox.docker]"), "{told}");
}

/// Two kinds of sandbox in one folder without `.git`: what keeps the name absent is the same for both.
#[test]
fn agons_that_start_at_once_in_one_folder_share_what_is_covered() {
    let script = command_script("mkdir -p .git/hooks; echo evil >.agon/x; [ -d .git ] && ls -A");
    let places: Option<Vec<Env>> = (0..6).map(|_| place(&script)).collect();
    let Some(places) = places else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = |(i, env): (usize, &Env)| {
        let kind =
            if i % 3 == 2 && std::env::var_os("AGON_NEEDS_LOCAL").is_some() { "local" } else { "docker" };
        let root = folder.path().to_str().unwrap();
        let words = ["run", "go", "--yes", "--json", "--sandbox", kind, "--workspace", root];
        env.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = places.iter().enumerate().map(start).collect();
    for child in running {
        let ran = child.wait_with_output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(said.contains("\\n.agon\\n.git\\n"), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "gone with the last");
}

#[test]
fn sessions_that_are_killed_leave_no_container() {
    let Some(env) = place(&command_script("echo begun; sleep 600")) else { return };
    let kills = std::env::var("AGON_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let mut dice = Dice(7);
    for _ in 0..kills {
        let mut command = env.command(&["run", "go", "--yes", "--json", "--signals"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some while the container is made, some while the command runs.
        match dice.roll(3) {
            0 => std::thread::sleep(Duration::from_millis(dice.roll(400))),
            _ => drop(lines.map_while(Result::ok).find(|line| line.contains("begun"))),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let ran = env.run(&["sandbox", "reap", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    until_none_is_left(&env);
    let claims = || std::fs::read_dir(env.home().join("containers")).map_or(0, Iterator::count);
    for _ in 0..40 {
        if claims() == 0 {
            break;
        }
        // One that was being made while the first was reaped.
        assert_eq!(env.run(&["sandbox", "reap"]).code, 0);
    }
    assert_eq!(claims(), 0);
    let left: Vec<_> =
        std::fs::read_dir(env.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [] as [&str; 0], "no mount point is left");
}

#[test]
fn a_terminal_that_is_closed_takes_the_container_along_and_the_session_goes_on() {
    let Some(env) = place(&command_script("echo begun; sleep 600")) else { return };
    let mut command = env.command(&["run", "go", "--yes", "--json", "--signals"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("{\"signal\"") && line.contains("begun")));
    assert_eq!(listed(&env).len(), 1);
    let sent = std::process::Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(listed(&env), [] as [Value; 0]);
    let ran = env.run(&["run", "go on", "--resume", "latest", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{ran}");
}

#[test]
fn what_is_missing_is_told_with_the_way_out() {
    let Some(mut env) = place(&command_script("true")) else { return };
    for (image, hint) in [("agon-sandbox", "agon sandbox build"), ("some/image:1", "agon sandbox pull")] {
        env.config(&format!(
            "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n\
             [sandbox.docker]\nimage = \"{image}\"\n"
        ));
        let ran = env.run(&["run", "go", "--sandbox", "docker"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
        assert!(ran.stderr.contains(image) && ran.stderr.contains(hint), "{ran}");
    }
    env.set("DOCKER_HOST", "unix:///nowhere/docker.sock");
    for arguments in [&["run", "go", "--sandbox", "docker"][..], &["sandbox", "ps"], &["sandbox", "reap"]] {
        let ran = env.run(arguments);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains("/nowhere/docker.sock") && ran.stderr.contains("hint: "), "{ran}");
    }
    assert_eq!(std::fs::read_dir(env.work()).unwrap().count(), 0);
}

#[test]
fn mounts_of_agons_own_files_of_the_engines_socket_and_of_the_machine_are_refused() {
    let Some(env) = place(&command_script("true")) else { return };
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let socket = address().unwrap().strip_prefix("unix://").unwrap().to_owned();
    let above = std::path::Path::new(&socket).parent().unwrap().display().to_string();
    let home = env.home().display().to_string();
    let (in_home, over_home) =
        (format!("{home}/sessions"), env.home().parent().unwrap().display().to_string());
    std::fs::create_dir_all(&in_home).unwrap();
    let machine =
        ["/proc", "/proc/sys", "/dev", "/sys", "/var/run", "/run", "/etc", "/var"].map(str::to_owned);
    for source in &machine {
        env.config(&format!("{text}mounts = [{{ source = \"{source}\", target = \"/x\" }}]\n"));
        let ran = env.run(&["run", "go", "--yes"]);
        // The engine's socket may lie in one of them as well.
        let says =
            ["hands the machine over", "the engine's own socket"].iter().any(|why| ran.stderr.contains(why));
        let is_named = ran.stderr.contains("`[sandbox.docker] mounts`");
        assert!(ran.code == 2 && says && is_named, "{source}: {ran}");
    }
    for (source, part) in [
        (&socket, "the engine's own socket"),
        (&above, "the engine's own socket"),
        (&home, "agon's own files"),
        (&in_home, "agon's own files"),
        (&over_home, "agon's own files"),
    ] {
        env.config(&format!("{text}mounts = [{{ source = \"{source}\", target = \"/x\" }}]\n"));
        let ran = env.run(&["run", "go", "--yes"]);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{source}: {ran}");
    }
}

#[test]
fn mounts_that_would_open_what_is_kept_from_commands_or_hide_what_they_need_are_refused() {
    let Some(env) = place(&command_script("true")) else { return };
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write("work/.git/hooks/x", "").write("work/.env", "secret").write("beside/file", "");
    let beside = env.work().parent().unwrap().join("beside");
    std::os::unix::fs::symlink(env.work(), beside.join("link")).unwrap();
    let (root, beside) = (env.work().display().to_string(), beside.display().to_string());
    let above = env.work().parent().unwrap().display().to_string();
    let (git, env_file, link) = (format!("{root}/.git"), format!("{root}/.env"), format!("{beside}/link"));
    for source in [&root, &git, &env_file, &link, &format!("{link}/.git")] {
        env.config(&format!(
            "{text}mounts = [{{ source = \"{source}\", target = \"/x\", writable = true }}]\n"
        ));
        let ran = env.run(&["run", "go", "--yes"]);
        let is_named = ran.stderr.contains("its `.git` and its secrets would be open")
            && ran.stderr.contains("`[sandbox.docker] mounts`")
            && ran.stderr.contains("cannot be mounted");
        assert!(ran.code == 2 && is_named, "{source}: {ran}");
    }
    for (target, part) in [
        (root.as_str(), "would hide the workspace"),
        (&git, "would hide the workspace"),
        (&above, "would hide the workspace"),
        ("/proc", "needs what is there"),
        ("/proc/sys", "needs what is there"),
        ("/dev", "needs what is there"),
        ("/sys/fs", "needs what is there"),
    ] {
        env.config(&format!("{text}mounts = [{{ source = \"{beside}\", target = \"{target}\" }}]\n"));
        let ran = env.run(&["run", "go", "--yes"]);
        let is_named = ran.stderr.contains(part) && ran.stderr.contains("`[sandbox.docker] mounts`");
        assert!(ran.code == 2 && is_named, "{target}: {ran}");
    }
    env.config(&format!("{text}mounts = [{{ source = \"{beside}\", target = \"/x\" }}]\n"));
    let ran = env.run(&["run", "go", "--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
}

/// The file in the program, on a stand-in for Debian that has what it calls: every step is one the engine can do.
#[test]
fn the_image_of_the_program_is_built_and_used() {
    let Some(env) = place(&command_script("cat /called; git --version")) else { return };
    let build = |image: &str, dockerfile: &str| {
        env.write("Dockerfile", dockerfile);
        let ran = env.run(&["sandbox", "build", "--image", image, "--file", "../Dockerfile"]);
        assert_eq!(ran.code, 0, "{ran}");
        ran
    };
    build(
        "agon-test-stand-in",
        "FROM agon-test\nRUN for n in apt-get git; do printf '#!/bin/sh\\necho \"%s $*\" >>/called 2>&-\\n' $n >/bin/$n; \
         chmod 755 /bin/$n; done; : >/called\n",
    );
    let shown = env.run(&["sandbox", "build", "--show"]);
    let ours = shown.stdout.replace("FROM debian:stable-slim", "FROM agon-test-stand-in");
    assert_ne!(ours, shown.stdout);
    let ran = build("agon-test-program", &ours);
    assert!(ran.stdout.starts_with("agon-test-program (id sha256:"), "{ran}");
    assert!(ran.stderr.contains("Step 1/4") && ran.stderr.contains("Step 4/4"), "{ran}");
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&text.replace(IMAGE, "agon-test-program"));
    let ran = env.run(&["run", "go", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    for called in
        ["apt-get update", "install -y --no-install-recommends bash build-essential", "git config --system"]
    {
        assert!(ran.stdout.contains(called), "{called}: {ran}");
    }
}

#[test]
fn an_image_is_built_from_a_dockerfile() {
    let Some(env) = place(&command_script("cat /tmp-made")) else { return };
    env.write("work/Dockerfile", "FROM agon-test\nENV PATH=/odd:/bin\nRUN [\"touch\", \"/tmp-made\"]\n");
    let ran = env.run(&["sandbox", "build", "--image", "agon-test-built", "--file", "Dockerfile"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout.starts_with("agon-test-built (id sha256:") && ran.stderr.contains("Step 1/3"),
        "{ran}"
    );
    env.write("work/Dockerfile", "FROM agon-test\nRUN exit 3\n");
    let ran = env.run(&["sandbox", "build", "--image", "agon-test-bad", "--file", "Dockerfile"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("cannot be built") && ran.stderr.contains("code: 3"), "{ran}");
    // Where the image it begins with cannot be had: nobody listens there.
    env.write("work/Dockerfile", "FROM 127.0.0.1:1/none\n");
    let ran = env.run(&["sandbox", "build", "--image", "agon-test-bad", "--file", "Dockerfile"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("cannot be built") && ran.stderr.contains("127.0.0.1:1"), "{ran}");
    // Without a name it is agon's own image, never the configured one.
    env.write("work/Dockerfile", "FROM agon-test\nRUN exit 3\n");
    let ran = env.run(&["sandbox", "build", "--file", "Dockerfile"]);
    assert!(ran.code == 2 && ran.stderr.contains("image `agon-sandbox` cannot be built"), "{ran}");
    assert!(ran.stderr.contains("`agon-test`, which is configured, stays as it is"), "{ran}");
    let ran = env.run(&["sandbox", "pull", "127.0.0.1:1/none"]);
    assert!(ran.code == 2 && ran.stderr.contains("is set in `[sandbox.docker] image`"), "{ran}");
    let ran = env.run(&["sandbox", "build", "--file", "missing"]);
    assert_eq!(ran.code, 2, "{ran}");
    let ran = env.run(&["sandbox", "build", "--show"]);
    assert!(ran.code == 0 && ran.stdout.contains("FROM debian"), "{ran}");
}
