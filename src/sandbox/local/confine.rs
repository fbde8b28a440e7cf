//! What a process takes from itself before a command of others runs in it; nothing of it can be given back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::LazyLock;

use landlock::{
    ABI, Access, AccessFs, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::sock_filter;

use super::plan::{HeldPlan, Limits};

/// The system calls that are refused, by name.
const REFUSED_CALLS: &str = include_str!("refused_calls.json");
/// Those that only this processor has.
const REFUSED_X86_64: &str = include_str!("refused_calls_x86_64.json");
/// Numbers from here on are the x32 interface, which would get past every comparison by number.
const X32: u32 = 0x4000_0000;
/// Newer than the table of names, and the same on every processor.
const OPEN_TREE_ATTR: u32 = 467;
const JUMP_IF_EQUAL: u32 = 0x15;
const JUMP_IF_NOT_BELOW: u32 = 0x35;

/// Gives up rights, in an order in which each step is still allowed.
///
/// `layers` are folders that this call alone can change.
pub fn confine(plan: &HeldPlan, layers: &[&OsStr]) -> Result<(), String> {
    limit(&plan.limits).map_err(|error| format!("the limits cannot be set: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("no_new_privs: {error}"))?;
    drop_capabilities().map_err(|error| format!("the capabilities cannot be dropped: {error}"))?;
    restrict_files(plan, layers)?;
    for filter in &plan.filters {
        let program: Vec<sock_filter> = filter.iter().filter_map(instruction).collect();
        seccompiler::apply_filter(&program).map_err(|error| format!("seccomp: {error}"))?;
    }
    Ok(())
}

/// One more program, for a sandbox that shares the network with everybody: no socket can be made, but pairs of them.
pub fn no_sockets() -> Result<Vec<[u32; 4]>, String> {
    let json = r#"{"sockets": {"mismatch_action": "allow", "match_action": {"errno": 1},
                   "filter": [{"syscall": "socket"}]}}"#;
    compiled(json)?.remove("sockets").ok_or_else(|| "seccomp: the program is empty".to_owned())
}

/// The programs for this machine's processor; an error where the kernel's filter does not know it.
pub fn filters() -> Result<Vec<Vec<[u32; 4]>>, String> {
    let mut all: Vec<Vec<[u32; 4]>> = compiled(REFUSED_CALLS)?.into_values().collect();
    if cfg!(target_arch = "x86_64") {
        all.extend(compiled(REFUSED_X86_64)?.into_values());
        all.push(without_numbers(JUMP_IF_NOT_BELOW, X32));
    }
    all.push(without_numbers(JUMP_IF_EQUAL, OPEN_TREE_ATTR));
    Ok(all)
}

fn compiled(json: &str) -> Result<BTreeMap<String, Vec<[u32; 4]>>, String> {
    let arch = std::env::consts::ARCH.try_into().map_err(|error| format!("seccomp: {error}"))?;
    let programs = seccompiler::compile_from_json(json.as_bytes(), arch);
    let numbers = |i: &sock_filter| [u32::from(i.code), u32::from(i.jt), u32::from(i.jf), i.k];
    let programs = programs.map_err(|error| format!("seccomp: {error}"))?;
    Ok(programs.into_iter().map(|(name, program)| (name, program.iter().map(numbers).collect())).collect())
}

/// Load the number; where the comparison holds answer EPERM, else allow.
fn without_numbers(comparison: u32, number: u32) -> Vec<[u32; 4]> {
    const LOAD: u32 = 0x20;
    const RETURN: u32 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO_EPERM: u32 = 0x0005_0001;
    vec![[LOAD, 0, 0, 0], [comparison, 0, 1, number], [RETURN, 0, 0, ERRNO_EPERM], [RETURN, 0, 0, ALLOW]]
}

fn instruction([code, jt, jf, k]: &[u32; 4]) -> Option<sock_filter> {
    let (code, jt, jf) = (u16::try_from(*code).ok()?, u8::try_from(*jt).ok()?, u8::try_from(*jf).ok()?);
    Some(sock_filter { code, jt, jf, k: *k })
}

fn limit(limits: &Limits) -> rustix::io::Result<()> {
    for (resource, wanted) in [
        (Resource::Nproc, limits.processes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Core, 0),
    ] {
        let now = rustix::process::getrlimit(resource);
        // Never above what the caller has.
        let most = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn drop_capabilities() -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // A kernel that does not know one has nothing to take away.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)
}

/// In namespaces the view is already small, and Landlock holds on to it should a mount be lost; without them it is
/// all there is. Kernels without Landlock are told apart by [`landlock_works`], before.
fn restrict_files(plan: &HeldPlan, layers: &[&OsStr]) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| format!("landlock: {error}");
    // The ninth refuses sockets by their path. A kernel that knows less does what it can.
    let all = AccessFs::from_all(ABI::V9);
    let read = AccessFs::from_read(ABI::V9);
    let mut ruleset = Ruleset::default()
        .handle_access(all)
        .map_err(|error| words(&error))?
        .scope(Scope::from_all(ABI::V6))
        .map_err(|error| words(&error))?
        .create()
        .map_err(|error| words(&error))?;
    let reads = plan.readable.iter().map(|path| (path.as_os_str(), read));
    let writes = plan.writable.iter().map(OsString::as_os_str).chain(layers.iter().copied());
    for (path, access) in reads.chain(writes.map(|path| (path, all))) {
        let path = Path::new(path);
        if !path.exists() {
            // Gone since the sandbox was opened; what is not allowed is refused.
            continue;
        }
        let file = PathFd::new(path).map_err(|error| words(&error))?;
        // What only folders can have is no right of a file.
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V9) };
        let rule = PathBeneath::new(file, access);
        ruleset = ruleset.add_rule(rule).map_err(|error| words(&error))?;
    }
    ruleset.no_new_privs(true).restrict_self().map_err(|error| words(&error))?;
    Ok(())
}

/// Whether this kernel has Landlock switched on.
pub fn landlock_works() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| landlock_has(ABI::V1));
    *WORKS
}

/// Whether it refuses to connect to sockets outside what may be written, wherever they are (Linux 7.1).
pub fn landlock_refuses_sockets() -> bool {
    static REFUSES: LazyLock<bool> = LazyLock::new(|| landlock_has(ABI::V9));
    *REFUSES
}

/// Costs a ruleset, so it is asked once.
fn landlock_has(abi: ABI) -> bool {
    use landlock::CompatLevel;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .is_ok()
}
