//! The sandbox `local`: the contract, the forbidden acts, and what it alone promises.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agon::ports::Sandbox;
use agon::sandbox::{LocalOptions, LocalSandbox};

use super::contract::{Opened, contract, exec};
use super::escapes;

/// The options of these tests: the test binary is no sandbox, the program is.
pub fn options() -> LocalOptions {
    LocalOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_agon")),
        secrets: vec!["{,*/,**/}.env".to_owned()],
        ..LocalOptions::default()
    }
}

/// Whether namespaces can be had here. CI sets `AGON_NEEDS_LOCAL`, and then they must be.
async fn can_be_had() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = LocalSandbox::open(folder.path(), options()).unwrap();
    match sandbox.start().await {
        Ok(()) => true,
        Err(error) if std::env::var_os("AGON_NEEDS_LOCAL").is_some() => panic!("{error}"),
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

async fn open() -> Option<Opened> {
    if !can_be_had().await {
        return None;
    }
    Some(Opened::new(|root| Arc::new(LocalSandbox::open(root, options()).unwrap())))
}

contract!(open);

#[tokio::test]
async fn every_forbidden_act_is_refused() {
    if !can_be_had().await {
        return;
    }
    // In /tmp, which is another folder inside, and beside it, where nothing but the view protects.
    for base in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        let open =
            async |root: &Path| Arc::new(LocalSandbox::open(root, options()).unwrap()) as Arc<dyn Sandbox>;
        escapes::every_forbidden_act_is_refused(&base, &["read_home"], open).await;
    }
}

#[tokio::test]
async fn tools_of_the_system_work_inside() {
    let Some(opened) = open().await else { return };
    let end =
        opened.sh("id -u; echo $HOME; ls -a $HOME | wc -l; cat /proc/self/status | grep -c CapEff").await;
    assert_eq!(end.exit, Some(0), "{end:?}");
    let end = opened.run(exec("test -w $HOME && test -w /tmp && : >/dev/null && echo ok; ls /")).await;
    assert!(end.stdout.starts_with("ok\n"), "{end:?}");
}
