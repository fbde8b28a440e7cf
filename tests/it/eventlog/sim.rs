//! A file system in memory that loses what was not synced, tears sectors, writes short and fails on demand.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use agon::eventlog::fs::{Access, LogFile, LogFs};

use super::kit::Dice;

const SECTOR: usize = 512;

/// What the k-th call answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`, before anything is done.
    Broken,
    /// `ENOSPC`; a write first takes half of what it was given.
    Full,
    /// A write takes half and says so; other calls are unharmed.
    Short,
}

#[derive(Default)]
struct SimData {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Space that was reserved up to here.
    reserved: u64,
}

#[derive(Default)]
struct Sim {
    files: Vec<SimData>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    synced_folders: BTreeSet<PathBuf>,
    locks: HashSet<usize>,
    calls: u64,
    fault: Option<(u64, Fault)>,
    /// What a file holds from a call on, because somebody else writes to it.
    growth: Option<(u64, PathBuf, Vec<u8>)>,
    /// Every call from here on fails with `EIO`.
    dead_from: Option<u64>,
    /// Bytes that fit on the disk.
    capacity: Option<u64>,
    reserving: bool,
    /// Locks of an earlier life must not free those of a later one.
    life: u64,
}

/// The file system; clones see the same disk.
#[derive(Clone)]
pub struct SimFs(Arc<Mutex<Sim>>);

struct SimFile {
    disk: SimFs,
    file: usize,
    /// Set when this handle holds the lock, with the life it was taken in.
    lock: Option<u64>,
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl SimFs {
    /// An empty disk that holds everything and can reserve.
    pub fn new() -> Self {
        let sim = Sim { reserving: true, ..Sim::default() };
        SimFs(Arc::new(Mutex::new(sim)))
    }

    fn sim(&self) -> MutexGuard<'_, Sim> {
        self.0.lock().unwrap()
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.sim().calls
    }

    /// Lets call number `call` (counted from now, the first is 0) fail.
    pub fn fail(&self, call: u64, fault: Fault) {
        let mut sim = self.sim();
        sim.fault = Some((sim.calls + call, fault));
    }

    /// Lets a file grow right before call number `call`, counted as for [`SimFs::fail`].
    pub fn grow(&self, call: u64, path: &Path, bytes: &[u8]) {
        let mut sim = self.sim();
        sim.growth = Some((sim.calls + call, path.to_owned(), bytes.to_vec()));
    }

    /// Lets every call from number `call` on fail.
    pub fn die(&self, call: u64) {
        let mut sim = self.sim();
        sim.dead_from = Some(sim.calls + call);
    }

    /// No more faults.
    pub fn heal(&self) {
        let mut sim = self.sim();
        (sim.fault, sim.dead_from, sim.growth) = (None, None, None);
    }

    /// Bounds the disk; none lifts the bound.
    pub fn hold(&self, capacity: Option<u64>) {
        self.sim().capacity = capacity;
    }

    /// Space can no longer be reserved on this kind of disk.
    pub fn without_reserving(&self) {
        self.sim().reserving = false;
    }

    /// Bytes in use, with what is reserved.
    pub fn used(&self) -> u64 {
        self.sim().used()
    }

    /// The power goes: names and bytes that were not synced are lost or kept by chance, in whole sectors;
    /// what was lost within the length reads as zeros or as it was before.
    pub fn lose_power(&self, dice: &mut Dice) {
        let mut sim = self.sim();
        if dice.below(2) == 0 {
            sim.names = sim.synced_names.clone();
            sim.folders = sim.synced_folders.clone();
        }
        let sim = &mut *sim;
        let all = sim.folders.clone();
        sim.folders.retain(|folder| folder.ancestors().all(|above| all.contains(above)));
        let folders = &sim.folders;
        sim.names.retain(|name, _| name.parent().is_some_and(|folder| folders.contains(folder)));
        (sim.synced_names, sim.synced_folders) = (sim.names.clone(), sim.folders.clone());
        for file in &mut sim.files {
            let survivor = torn(&file.synced, &file.now, dice);
            (file.now, file.synced, file.reserved) = (survivor.clone(), survivor, 0);
        }
        sim.die_and_live();
    }

    /// The process dies: everything written stays.
    pub fn kill(&self) {
        self.sim().die_and_live();
    }

    /// The bytes of a file as they are now.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let sim = self.sim();
        sim.names.get(path).map(|file| sim.files[*file].now.clone()).unwrap_or_default()
    }

    /// Puts bytes into a file, synced.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut sim = self.sim();
        let file = sim.names[path];
        (sim.files[file].now, sim.files[file].synced) = (bytes.to_vec(), bytes.to_vec());
    }

    fn call(&self) -> io::Result<(MutexGuard<'_, Sim>, Option<Fault>)> {
        let mut sim = self.sim();
        let call = sim.calls;
        sim.calls += 1;
        if let Some((_, path, bytes)) = sim.growth.take_if(|(at, ..)| *at == call) {
            let file = sim.names[&path];
            sim.files[file].now = bytes;
        }
        if sim.dead_from.is_some_and(|from| call >= from) {
            return Err(broken());
        }
        let fault = sim.fault.filter(|(at, _)| *at == call).map(|(_, fault)| fault);
        if fault == Some(Fault::Broken) { Err(broken()) } else { Ok((sim, fault)) }
    }

    fn changing(&self) -> io::Result<MutexGuard<'_, Sim>> {
        match self.call()? {
            (_, Some(Fault::Full)) => Err(full()),
            (sim, _) => Ok(sim),
        }
    }
}

/// Each sector that differs survives or not; so does the new length.
fn torn(synced: &[u8], now: &[u8], dice: &mut Dice) -> Vec<u8> {
    if synced == now {
        return now.to_vec();
    }
    let mut survivor = match dice.below(4) {
        0 => synced.to_vec(),
        _ => {
            let mut longer = synced.to_vec();
            let cut = if dice.below(2) == 0 { now.len() } else { dice.below(now.len() as u64 + 1) as usize };
            longer.resize(cut.max(synced.len().min(now.len())), 0);
            longer
        }
    };
    for start in (0..survivor.len()).step_by(SECTOR) {
        let end = survivor.len().min(start + SECTOR).min(now.len());
        if start < end && dice.below(2) == 0 {
            survivor[start..end].copy_from_slice(&now[start..end]);
        }
    }
    survivor
}

impl Sim {
    fn used(&self) -> u64 {
        let live: BTreeSet<usize> = self.names.values().copied().collect();
        live.iter().map(|file| &self.files[*file]).map(|file| file.reserved.max(file.now.len() as u64)).sum()
    }

    fn fits(&self, more: u64) -> bool {
        self.capacity.is_none_or(|capacity| self.used() + more <= capacity)
    }

    fn die_and_live(&mut self) {
        self.locks.clear();
        self.life += 1;
    }

    fn create(&mut self, path: &Path) -> io::Result<usize> {
        if !path.parent().is_some_and(|folder| self.folders.contains(folder)) {
            return Err(ErrorKind::NotFound.into());
        }
        self.files.push(SimData::default());
        self.names.insert(path.to_owned(), self.files.len() - 1);
        Ok(self.files.len() - 1)
    }
}

impl LogFs for SimFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn LogFile>> {
        let mut sim = self.changing()?;
        let file = match (sim.names.get(path).copied(), access) {
            (Some(_), Access::CreateNew) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(file), _) => file,
            (None, Access::CreateNew) => sim.create(path)?,
            (None, _) => return Err(ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimFile { disk: self.clone(), file, lock: None }))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn LogFile>>> {
        let mut sim = self.changing()?;
        let file = match sim.names.get(path).copied() {
            Some(file) => file,
            None => sim.create(path)?,
        };
        let taken = sim.locks.insert(file);
        let lock = Some(sim.life);
        drop(sim);
        Ok(taken.then(|| Arc::new(SimFile { disk: self.clone(), file, lock }) as Arc<dyn LogFile>))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut sim = self.changing()?;
        for folder in path.ancestors() {
            sim.folders.insert(folder.to_owned());
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut sim = self.changing()?;
        let sim = &mut *sim;
        let inside = |name: &Path| name.parent() == Some(path);
        sim.synced_names.retain(|name, _| !inside(name));
        sim.synced_names
            .extend(sim.names.iter().filter(|(name, _)| inside(name)).map(|(n, f)| (n.clone(), *f)));
        sim.synced_folders.retain(|name| !inside(name));
        sim.synced_folders.extend(sim.folders.iter().filter(|name| inside(name)).cloned());
        // The root is always there.
        sim.synced_folders.extend(path.ancestors().last().map(Path::to_owned));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut sim = self.changing()?;
        let moved = |name: &Path| name.strip_prefix(from).ok().map(|rest| to.join(rest));
        let names = std::mem::take(&mut sim.names);
        sim.names = names.into_iter().map(|(name, file)| (moved(&name).unwrap_or(name), file)).collect();
        let folders = std::mem::take(&mut sim.folders);
        sim.folders = folders.into_iter().map(|name| moved(&name).unwrap_or(name)).collect();
        // What was durable inside a folder stays so under its new name once that is durable.
        let inside: Vec<_> =
            sim.synced_names.iter().filter_map(|(name, f)| Some((moved(name)?, *f))).collect();
        sim.synced_names.extend(inside);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut sim = self.changing()?;
        sim.names.retain(|name, _| !name.starts_with(path));
        sim.folders.retain(|name| !name.starts_with(path));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.changing()?.names.remove(path).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let sim = self.changing()?;
        let all = sim.names.keys().chain(&sim.folders).filter(|name| name.parent() == Some(path));
        Ok(all.filter_map(|name| Some(name.file_name()?.to_str()?.to_owned())).collect())
    }

    fn exists(&self, path: &Path) -> bool {
        let sim = self.sim();
        sim.names.contains_key(path) || sim.folders.contains(path)
    }
}

impl LogFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let sim = self.disk.changing()?;
        let rest = sim.files[self.file].now.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (mut sim, fault) = self.disk.call()?;
        let end = offset + bytes.len() as u64;
        let held = sim.files[self.file].reserved.max(sim.files[self.file].now.len() as u64);
        let full_up = !sim.fits(end.saturating_sub(held)) || fault == Some(Fault::Full);
        let take = if full_up || fault == Some(Fault::Short) { bytes.len() / 2 } else { bytes.len() };
        let file = &mut sim.files[self.file];
        let (from, to) = (offset as usize, offset as usize + take);
        if file.now.len() < to {
            file.now.resize(to, 0);
        }
        file.now[from..to].copy_from_slice(&bytes[..take]);
        if full_up { Err(full()) } else { Ok(take) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut sim = self.disk.changing()?;
        let file = &mut sim.files[self.file];
        file.synced = file.now.clone();
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut sim = self.disk.changing()?;
        let file = &mut sim.files[self.file];
        file.now.resize(len as usize, 0);
        file.reserved = 0;
        Ok(())
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut sim = self.disk.changing()?;
        if !sim.reserving {
            return Err(ErrorKind::Unsupported.into());
        }
        let held = sim.files[self.file].reserved.max(sim.files[self.file].now.len() as u64);
        if !sim.fits((offset + len).saturating_sub(held)) {
            return Err(full());
        }
        let file = &mut sim.files[self.file];
        file.reserved = file.reserved.max(offset + len);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.changing()?.files[self.file].now.len() as u64)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut sim = self.disk.sim();
        if self.lock == Some(sim.life) {
            sim.locks.remove(&self.file);
        }
    }
}
