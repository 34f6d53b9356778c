//! The disk as a file that the kernel can open, and the socket on which it is told what to do.
//!
//! The FUSE mount has no place in any tree: the file is opened below a descriptor of this process, and all of
//! it is gone with the process and those who have opened it. On the socket, a line of JSON is answered by one.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request as Asked, Session, SessionACL, WriteFlags,
};
use parking_lot::{Mutex, RwLock};
use rustix::mount;
use serde::{Deserialize, Serialize};

use crate::delays::{Clock, Delays, Request};
use crate::image::Image;
use crate::layers::{ByteSource, Layers, Zeros};
use crate::record::{Entry, EntryKind, Recorder};
use crate::spec::{Base, ImageSpec, Spec};
use crate::timer::{be_punctual, Timer};
use crate::{BLOCK, SECTOR};

const FILE: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(1 << 30);
const THREADS: usize = 4;
/// Requests that the kernel may have under way.
const UNDER_WAY: u16 = 128;
/// Before the next caller is let in where one could not be.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_WRITE: u32 = 1 << 20;

/// What the socket takes.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    /// Tells what there is.
    Status,
    /// What stands now is the beginning; records what follows.
    Record,
    /// Is what a crash has left, in place of what was there; for a disk that nobody has open.
    Image { image: ImageSpec },
    /// Answers a flush with an I/O error: the one after so many others.
    FailFlush { after: u64 },
    /// Answers writes with "no space left", or no longer.
    Full { on: bool },
    /// From now on.
    Delays { delays: Option<Delays> },
}

/// What it answers.
#[derive(Debug, Default, Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Descriptor of this process below which the file lies.
    root: RawFd,
    /// The kernel knows that this process serves a disk.
    flusher: bool,
    records: u64,
    reads: u64,
    writes: u64,
    written_bytes: u64,
    flushes: u64,
    failed: u64,
}

#[derive(Debug, Default)]
struct Faults {
    flushes_until_failure: Option<u64>,
    full: bool,
}

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    failed: AtomicU64,
}

/// Where the blocks lie, and whether what is written is recorded.
struct Blocks {
    layers: Layers,
    records: bool,
}

struct Disk {
    size: u64,
    overlay: std::path::PathBuf,
    record: Option<std::path::PathBuf>,
    blocks: RwLock<Blocks>,
    recorder: Option<Recorder>,
    clock: Clock,
    timer: Timer,
    faults: Mutex<Faults>,
    counts: Counts,
}

impl Disk {
    fn open(spec: &Spec) -> io::Result<Self> {
        if spec.size == 0 || !spec.size.is_multiple_of(BLOCK) {
            return Err(io::Error::other(format!(
                "a disk of {} bytes: not a multiple of {BLOCK}",
                spec.size
            )));
        }
        let is_image = matches!(spec.base, Base::Image(_));
        let base: Box<dyn ByteSource> = match &spec.base {
            Base::Zeros => Box::new(Zeros),
            Base::File => return Err(io::Error::other("a disk begins with zeros or with an image")),
            Base::Image(image) => open_image(image, spec.size)?,
        };
        // What stands when a record begins becomes its base, so it is written there at once.
        let over = match &spec.record {
            Some(folder) if !is_image => OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(folder.join("base"))?,
            _ => nameless(&spec.overlay)?,
        };
        let recorder = match &spec.record {
            Some(folder) => {
                let base = if is_image { spec.base.clone() } else { Base::File };
                Some(Recorder::create(folder, spec.size, base, spec.record_limit)?)
            }
            None => None,
        };
        Ok(Self {
            size: spec.size,
            overlay: spec.overlay.clone(),
            record: spec.record.clone(),
            blocks: RwLock::new(Blocks {
                layers: Layers::new(base, over, spec.size),
                records: is_image && recorder.is_some(),
            }),
            recorder,
            clock: Clock::new(spec.delays.unwrap_or_default()),
            timer: Timer::start()?,
            faults: Mutex::default(),
            counts: Counts::default(),
        })
    }

    /// What stands now becomes the base of the record.
    fn start_recording(&self) -> io::Result<()> {
        let Some(folder) = &self.record else {
            return Err(io::Error::other("this disk was opened without a record"));
        };
        let mut blocks = self.blocks.write();
        if blocks.records {
            return Err(io::Error::other("this disk records already"));
        }
        let base = Box::new(File::open(folder.join("base"))?);
        blocks.layers = Layers::new(base, nameless(&self.overlay)?, self.size);
        blocks.records = true;
        Ok(())
    }

    fn become_image(&self, image: &ImageSpec) -> io::Result<()> {
        let mut blocks = self.blocks.write();
        if blocks.records {
            return Err(io::Error::other("this disk records"));
        }
        blocks.layers = Layers::new(open_image(image, self.size)?, nameless(&self.overlay)?, self.size);
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.blocks.read().layers.read(buffer, offset)
    }

    /// Takes a write; the entry of its record, which is to be added when it is answered.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<Option<Entry>> {
        let length = data.len() as u64;
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts.written_bytes.fetch_add(length, Ordering::Relaxed);
        if !(offset | length).is_multiple_of(SECTOR) || offset + length > self.size {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if self.faults.lock().full {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let blocks = self.blocks.read();
        let entry = match self.recorder.as_ref().filter(|_| blocks.records) {
            Some(recorder) => Some(Entry {
                kind: EntryKind::Write,
                length: length as u32,
                time_ns: 0,
                offset,
                before: recorder.position(),
                data: recorder.keep(data)?,
            }),
            None => None,
        };
        blocks.layers.write(data, offset)?;
        Ok(entry)
    }

    fn flush(&self) -> io::Result<Option<Entry>> {
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock();
        let fails = faults.flushes_until_failure == Some(0);
        faults.flushes_until_failure = faults.flushes_until_failure.and_then(|left| left.checked_sub(1));
        let blocks = self.blocks.read();
        let recorder = self.recorder.as_ref().filter(|_| blocks.records);
        if fails && recorder.is_none() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(recorder.map(|recorder| Entry {
            kind: if fails {
                EntryKind::Failed
            } else {
                EntryKind::Flush
            },
            length: 0,
            time_ns: 0,
            offset: 0,
            data: 0,
            before: recorder.position(),
        }))
    }

    /// What a request came to, with its record added.
    fn finish(&self, outcome: io::Result<Option<Entry>>) -> Result<(), Errno> {
        let added = outcome.and_then(|entry| match (entry, &self.recorder) {
            (Some(entry), Some(recorder)) => {
                recorder.add(entry)?;
                match entry.kind {
                    EntryKind::Failed => Err(io::Error::from_raw_os_error(libc::EIO)),
                    EntryKind::Write | EntryKind::Flush => Ok(()),
                }
            }
            _ => Ok(()),
        });
        added.map_err(|error| {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            errno(&error)
        })
    }

    fn obey(&self, command: &Command) -> io::Result<()> {
        match command {
            Command::Status => {}
            Command::Record => self.start_recording()?,
            Command::Image { image } => self.become_image(image)?,
            Command::FailFlush { after } => self.faults().flushes_until_failure = Some(*after),
            Command::Full { on } => self.faults().full = *on,
            Command::Delays { delays } => self.clock.set(delays.unwrap_or_default()),
        }
        Ok(())
    }

    fn faults(&self) -> parking_lot::MutexGuard<'_, Faults> {
        self.faults.lock()
    }

    fn status(&self, root: RawFd, flusher: bool) -> Status {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Status {
            error: None,
            root,
            flusher,
            records: self.recorder.as_ref().map_or(0, Recorder::position),
            reads: now(&self.counts.reads),
            writes: now(&self.counts.writes),
            written_bytes: now(&self.counts.written_bytes),
            flushes: now(&self.counts.flushes),
            failed: now(&self.counts.failed),
        }
    }
}

fn open_image(spec: &ImageSpec, size: u64) -> io::Result<Box<dyn ByteSource>> {
    let image = Image::open(spec)?;
    if image.size() != size {
        let sizes = format!("a disk of {size} bytes on an image of {}", image.size());
        return Err(io::Error::other(sizes));
    }
    Ok(Box::new(image))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

/// A file without a name, which is gone when nobody has it open.
fn nameless(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o600)
        .open(folder)
}

struct Served(Arc<Disk>);

impl Served {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if is_file { self.0.size } else { 0 },
            blocks: if is_file { self.0.size / SECTOR } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }

    /// Gives an answer when it is due.
    fn answer(&self, request: Request, arrived: Instant, answer: impl FnOnce() + Send + 'static) {
        match self.0.clock.due(request, arrived) {
            None => answer(),
            Some(due) => self.0.timer.at(due, answer),
        }
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        let missing = |_| io::Error::other("the kernel's FUSE has no asynchronous direct I/O");
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(missing)?;
        // Either may be smaller in this kernel, which then says what it takes.
        let _ = config.set_max_write(LONGEST_WRITE);
        let _ = config.set_max_background(UNDER_WAY);
        Ok(())
    }

    /// Any name is the file's: mkfs.btrfs takes loop devices on files of one name for one device.
    fn lookup(&self, _: &Asked, parent: INodeNo, _: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Asked, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn open(&self, _: &Asked, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let arrived = Instant::now();
        let bytes = u64::from(size).min(self.0.size.saturating_sub(offset)) as usize;
        let mut buffer = vec![0; bytes];
        let outcome = self.0.read(&mut buffer, offset);
        self.answer(Request::Read(bytes), arrived, move || match outcome {
            Ok(()) => reply.data(&buffer),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn write(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let arrived = Instant::now();
        let (outcome, length) = (self.0.write(data, offset), data.len());
        let disk = self.0.clone();
        self.answer(Request::Write(length), arrived, move || {
            match disk.finish(outcome) {
                Ok(()) => reply.written(length as u32),
                Err(error) => reply.error(error),
            }
        });
    }

    fn fsync(&self, _: &Asked, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let arrived = Instant::now();
        let outcome = self.0.flush();
        let disk = self.0.clone();
        self.answer(Request::Flush, arrived, move || match disk.finish(outcome) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }
}

/// Serves a disk until the process ends.
pub fn serve(spec: &Spec) -> io::Result<()> {
    let flusher = stay_out_of_deadlocks()?;
    if spec.punctual {
        be_punctual();
    }
    let disk = Arc::new(Disk::open(spec)?);
    let (device, root) = mount_nowhere()?;
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    let session = Session::from_fd(Served(disk.clone()), device, SessionACL::All, config)?;
    let session = session.spawn()?;
    let listener = UnixListener::bind(&spec.control)?;
    // A caller that goes away in the middle of a word is no reason to stop.
    each_caller(listener.incoming(), |caller| {
        let _ = talk(&disk, root.as_raw_fd(), flusher, caller);
    });
    drop(session);
    Ok(())
}

/// Serves callers one after the other. One that cannot be let in (no descriptor, or it left again) must not end a disk
/// that is mounted.
fn each_caller(callers: impl Iterator<Item = io::Result<UnixStream>>, mut serve: impl FnMut(UnixStream)) {
    for caller in callers {
        match caller {
            Ok(caller) => serve(caller),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn talk(disk: &Disk, root: RawFd, flusher: bool, caller: UnixStream) -> io::Result<()> {
    let mut writer = caller.try_clone()?;
    for line in BufReader::new(caller).lines() {
        let done = serde_json::from_str(&line?)
            .map_err(io::Error::from)
            .and_then(|what| disk.obey(&what));
        let mut status = disk.status(root, flusher);
        status.error = done.err().map(|error| error.to_string());
        let mut answer = serde_json::to_vec(&status)?;
        answer.push(b'\n');
        writer.write_all(&answer)?;
    }
    Ok(())
}

/// A FUSE file system that is mounted nowhere: its device, and a descriptor of its root.
fn mount_nowhere() -> io::Result<(OwnedFd, OwnedFd)> {
    let device: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")?
        .into();
    let context = mount::fsopen("fuse", mount::FsOpenFlags::FSOPEN_CLOEXEC)?;
    let number = device.as_raw_fd().to_string();
    let options = [
        ("source", "flushlab"),
        ("fd", &*number),
        ("rootmode", "40000"),
        ("user_id", "0"),
    ];
    for (name, value) in options {
        mount::fsconfig_set_string(&context, name, value)?;
    }
    mount::fsconfig_set_string(&context, "group_id", "0")?;
    mount::fsconfig_set_flag(&context, "allow_other")?;
    mount::fsconfig_create(&context)?;
    let flags = mount::MountAttrFlags::MOUNT_ATTR_NODEV | mount::MountAttrFlags::MOUNT_ATTR_NOSUID;
    let root = mount::fsmount(&context, mount::FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    Ok((device, root))
}

/// Memory that this process waits for must never be freed by writing to the disk that it serves: what it has
/// stays in memory, and the kernel is told that it serves one (prctl(2), PR_SET_IO_FLUSHER). Returns whether the
/// kernel took that: some containers and virtual machines keep CAP_SYS_RESOURCE from root.
#[allow(unsafe_code)]
fn stay_out_of_deadlocks() -> io::Result<bool> {
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: both take numbers alone.
    let (locked, told) = unsafe {
        let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
        (libc::mlockall(flags), libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
    };
    if locked == 0 {
        return Ok(told == 0);
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};
    use tempfile::TempDir;

    use super::*;
    use crate::spec::{Failure, FailureKind};

    const SIZE: u64 = 16 * BLOCK;

    struct Fixture {
        folder: TempDir,
        disk: Disk,
    }

    impl Fixture {
        /// A disk that can record.
        fn new(limit: Option<u64>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("record")).unwrap();
            let disk = Disk::open(&Spec {
                control: folder.path().join("control"),
                size: SIZE,
                base: Base::Zeros,
                overlay: folder.path().to_owned(),
                record: Some(folder.path().join("record")),
                record_limit: limit,
                punctual: false,
                delays: None,
            });
            Self {
                disk: disk.unwrap(),
                folder,
            }
        }

        fn write(&self, block: u64, byte: u8) -> Result<(), i32> {
            let outcome = self.disk.write(&[byte; BLOCK as usize], block * BLOCK);
            self.disk.finish(outcome).map_err(Errno::code)
        }

        fn flush(&self) -> Result<(), i32> {
            self.disk.finish(self.disk.flush()).map_err(Errno::code)
        }

        fn first_bytes(&self) -> Vec<u8> {
            let mut all = vec![0; SIZE as usize];
            self.disk.read(&mut all, 0).unwrap();
            all.iter().copied().step_by(BLOCK as usize).collect()
        }

        /// Says words to it over its socket; what it answers.
        fn tell(&self, lines: &[Value]) -> Vec<Value> {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let told: String = lines.iter().map(|line| format!("{line}\n")).collect();
            (&ours).write_all(told.as_bytes()).unwrap();
            ours.shutdown(std::net::Shutdown::Write).unwrap();
            talk(&self.disk, 7, true, theirs).unwrap();
            let answers = BufReader::new(ours).lines();
            answers
                .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
                .collect()
        }

        fn image(&self, at: u64, kind: FailureKind) -> Vec<u8> {
            let image = Image::open(&ImageSpec {
                record: self.folder.path().join("record"),
                at,
                failure: Failure {
                    kind,
                    tear: None,
                    lying_flushes: 0,
                },
                seed: 0,
            });
            let mut all = vec![0; SIZE as usize];
            image.unwrap().read(&mut all, 0).unwrap();
            all.iter().copied().step_by(BLOCK as usize).collect()
        }
    }

    #[test]
    fn what_stands_when_the_record_begins_is_its_base_and_what_follows_is_numbered() {
        let some = Fixture::new(None);
        some.write(0, 1).unwrap();
        let [answer] = &some.tell(&[json!({"do": "record"})])[..] else {
            panic!("one answer was due")
        };
        assert_eq!((&answer["records"], answer.get("error")), (&json!(0), None));
        some.write(1, 2).unwrap();
        some.flush().unwrap();
        some.write(2, 3).unwrap();
        assert_eq!(some.first_bytes()[..4], [1, 2, 3, 0]);
        assert_eq!(some.image(0, FailureKind::Os)[..4], [1, 0, 0, 0]);
        assert_eq!(some.image(3, FailureKind::Os)[..4], [1, 2, 3, 0]);
        assert_eq!(some.image(3, FailureKind::Power)[..2], [1, 2]);
        let status = &some.tell(&[json!({"do": "status"})])[0];
        for (name, value) in [
            ("records", 3),
            ("writes", 3),
            ("flushes", 1),
            ("failed", 0),
            ("root", 7),
        ] {
            assert_eq!(status[name], json!(value), "{name}");
        }
        assert_eq!(status["written_bytes"], json!(3 * BLOCK));
    }

    #[test]
    fn a_flush_fails_after_as_many_as_were_asked_for_and_is_recorded() {
        let some = Fixture::new(None);
        some.tell(&[json!({"do": "record"}), json!({"do": "fail_flush", "after": 1})]);
        let outcomes = [some.flush(), some.flush(), some.flush()];
        assert_eq!(outcomes, [Ok(()), Err(libc::EIO), Ok(())]);
        let status = &some.tell(&[json!({"do": "status"})])[0];
        assert_eq!((&status["records"], &status["failed"]), (&json!(3), &json!(1)));
    }

    #[test]
    fn a_full_disk_and_a_full_record_take_no_write_and_lose_none() {
        let some = Fixture::new(Some(2 * BLOCK));
        some.tell(&[json!({"do": "full", "on": true})]);
        assert_eq!(some.write(0, 1), Err(libc::ENOSPC));
        some.tell(&[json!({"do": "full", "on": false}), json!({"do": "record"})]);
        assert_eq!(
            [some.write(0, 1), some.write(1, 2), some.write(2, 3)],
            [Ok(()), Ok(()), Err(libc::ENOSPC)]
        );
        assert_eq!(some.first_bytes()[..3], [1, 2, 0]);
        assert_eq!(some.image(2, FailureKind::Os)[..3], [1, 2, 0]);
    }

    #[test]
    fn what_lies_outside_or_is_no_whole_sector_is_refused() {
        let some = Fixture::new(None);
        assert_eq!(some.write(16, 1), Err(libc::EINVAL));
        let odd = some.disk.write(&[1; 100], 0);
        assert_eq!(some.disk.finish(odd).map_err(Errno::code), Err(libc::EINVAL));
    }

    #[test]
    fn words_that_make_no_sense_are_answered_and_the_next_ones_too() {
        let some = Fixture::new(None);
        let answers = some.tell(&[
            json!({"do": "explode"}),
            json!({"do": "full"}),
            json!({"do": "record"}),
            json!({"do": "record"}),
            json!({"do": "status"}),
        ]);
        let errors: Vec<_> = answers.iter().map(|answer| answer["error"].as_str()).collect();
        assert!(errors[0].unwrap().contains("explode") && errors[1].unwrap().contains("on"));
        assert_eq!(errors[2..], [None, Some("this disk records already"), None]);
    }

    #[test]
    fn a_caller_that_cannot_be_let_in_does_not_end_the_disk() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let no_descriptor = || Err(io::Error::from_raw_os_error(libc::EMFILE));
        let mut served = 0;
        each_caller([no_descriptor(), no_descriptor(), Ok(ours)].into_iter(), |_| {
            served += 1
        });
        assert_eq!(served, 1);
    }
}
