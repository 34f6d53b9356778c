//! The seconds of a window, written to files as they end.
//!
//! A thread of its own takes them from the meter and waits for the disk, so that the load never does; what has
//! been written need not be kept, so that a window may last for days.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError,
};
use hdrhistogram::serialization::V2DeflateSerializer;
use nix::errno::Errno;

use crate::histogram::latencies;
use crate::meter::{Meter, SecondsOver, Window, MOST_UNTAKEN};
use crate::result::Latency;
use crate::sync::locked;
use crate::{Error, ErrorKind};

/// How long to wait for the files of a window that gives no result.
const ABANDONED: Duration = Duration::from_secs(2);

const SECOND: Duration = Duration::from_secs(1);

const CSV_HEAD: &str = "second,figure,events,errors,mean_us,p50_us,p90_us,p95_us,p99_us,p999_us,max_us";

/// Which files are asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecondFiles {
    /// HdrHistogram's interval log: one histogram of nanoseconds per second; maxima in milliseconds.
    pub hdr_log: Option<PathBuf>,
    /// CSV: a line per second, as soon as no transaction in it is open.
    pub per_second: Option<PathBuf>,
}

impl SecondFiles {
    pub fn are_asked_for(&self) -> bool {
        self.hdr_log.is_some() || self.per_second.is_some()
    }
}

/// Writes the seconds of one window.
#[derive(Debug)]
pub(crate) struct SecondsWriter {
    last: Sender<(SecondsOver, Duration)>,
    ended: Receiver<Result<(), String>>,
    paths: Vec<PathBuf>,
}

/// The rest of a window on its way to the disk.
#[derive(Debug)]
pub(crate) struct Rest {
    ended: Receiver<Result<(), String>>,
    paths: Vec<PathBuf>,
}

impl Rest {
    /// Why the files are not whole, if they are not: also if the disk has not taken them within `most`. None, if it
    /// was interrupted, which is asked after each `look`.
    pub fn wait(
        self,
        most: Duration,
        look: Duration,
        mut interrupted: impl FnMut() -> bool,
    ) -> Option<Option<String>> {
        let deadline = Instant::now() + most;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.ended.recv_timeout(left.min(look)) {
                Ok(written) => return Some(written.err()),
                // Its thread tells in any case.
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Some("the files are incomplete".to_owned()))
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    let names: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
                    return Some(Some(format!(
                        "{}: incomplete, because the disk took nothing for {} s",
                        names.join(", "),
                        most.as_secs_f64()
                    )));
                }
                Err(RecvTimeoutError::Timeout) if interrupted() => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl SecondsWriter {
    /// Makes the files, replacing older ones, and begins to write the window that `meter` counts since `start`.
    ///
    /// # Errors
    /// [`ErrorKind::Storage`]: a file cannot be made; [`ErrorKind::Measurement`]: the system gives no thread.
    pub fn start(files: &SecondFiles, meter: Arc<Mutex<Meter>>, start: Instant) -> Result<Self, Error> {
        let opened = SystemTime::now();
        let files = Files {
            hdr_log: create(files.hdr_log.as_deref())?,
            per_second: create(files.per_second.as_deref())?,
        };
        let (last, ends) = mpsc::channel();
        let source = SecondsSource { meter, start, ends };
        let named = |file: &Option<Named>| file.as_ref().map(|(path, _)| path.clone());
        let paths = [named(&files.hdr_log), named(&files.per_second)];
        let (tell, ended) = mpsc::channel();
        // Nobody joins it: a disk that hangs must not hold up the load.
        let thread = std::thread::Builder::new().name("load-seconds".to_owned());
        thread
            .spawn(move || {
                let written = catch_unwind(AssertUnwindSafe(|| write(&source, files, opened)));
                let written = written.unwrap_or_else(|panic| Err(Error::panicked(&*panic).message));
                let _ = tell.send(written); // a window that is abandoned is not asked for
            })
            .map_err(|error| {
                let message = format!("the system gives no thread for the seconds' files: {error}");
                Error::new(ErrorKind::Measurement, message)
            })?;
        Ok(Self {
            last,
            ended,
            paths: paths.into_iter().flatten().collect(),
        })
    }

    /// Has the rest of the window written, which is closed and settled.
    pub fn finish(self, window: &mut Window, length: Duration) -> Rest {
        let until = length.as_nanos().div_ceil(SECOND.as_nanos()) as usize;
        if let Some(over) = window.take_seconds(until) {
            // A thread that is gone says why.
            let _ = self.last.send((over, length));
        }
        Rest {
            ended: self.ended,
            paths: self.paths,
        }
    }

    /// Leaves the files as they are: the window gives no result.
    pub fn abandon(self) {
        drop(self.last);
        // What it would tell is of no account without a result; it closes the files soon, unless the disk hangs.
        let _ = self.ended.recv_timeout(ABANDONED);
    }
}

/// Where the seconds come from.
struct SecondsSource {
    meter: Arc<Mutex<Meter>>,
    start: Instant,
    ends: Receiver<(SecondsOver, Duration)>,
}

impl SecondsSource {
    /// What is over once `second` is; with the window's length, if it has ended. None if it gives no result.
    fn wait(&self, second: usize) -> Option<(SecondsOver, Option<Duration>)> {
        let due = self.start + Duration::from_secs(second as u64 + 1);
        match self
            .ends
            .recv_timeout(due.saturating_duration_since(Instant::now()))
        {
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let over = locked(&self.meter).take_seconds();
                if let Some(over) = over {
                    return Some((over, None));
                }
            }
            Ok((over, length)) => return Some((over, Some(length))),
        }
        // The window is closed and settles.
        let (over, length) = self.ends.recv().ok()?;
        Some((over, Some(length)))
    }
}

/// A file with its path.
type Named = (PathBuf, LineWriter<File>);

/// The files, open.
struct Files {
    hdr_log: Option<Named>,
    per_second: Option<Named>,
}

/// A file, made anew; a line that is written is in it.
fn create(path: Option<&Path>) -> Result<Option<Named>, Error> {
    let Some(path) = path else { return Ok(None) };
    let refused = |why: &str| {
        let message = format!("{} cannot be written: {why}", path.display());
        Error::new(ErrorKind::Storage, message).hint("name a file in a directory that exists and has room")
    };
    if path.is_symlink() && (path.is_file() || !path.exists()) {
        return Err(refused("it is a symbolic link to another file"));
    }
    let file = File::create(path).map_err(|error| refused(&reason(&error)))?;
    Ok(Some((path.to_owned(), LineWriter::new(file))))
}

/// What the system says, without its number.
fn reason(error: &io::Error) -> String {
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.map_or_else(|| error.to_string(), |errno| errno.desc().to_owned())
}

/// One of the files; an error ends it, and only it.
struct Output<W> {
    path: PathBuf,
    writer: Result<W, String>,
}

impl<W> Output<W> {
    fn new(path: &Path, writer: io::Result<W>) -> Self {
        Self {
            path: path.to_owned(),
            writer: writer.map_err(|error| reason(&error)),
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if let Ok(writer) = &mut self.writer {
            if let Err(error) = write(writer) {
                self.writer = Err(reason(&error));
            }
        }
    }

    fn failure(&self) -> Option<String> {
        let error = self.writer.as_ref().err()?;
        Some(format!("{} is incomplete: {error}", self.path.display()))
    }
}

/// What a line of the CSV file says of a second.
struct Row {
    events: u64,
    latency: Option<Latency>,
}

/// Writes seconds until the window has ended or no file can be written any more.
fn write(source: &SecondsSource, files: Files, opened: SystemTime) -> Result<(), String> {
    let Files { hdr_log, per_second } = files;
    let (mut hdr_log, mut serializer) = (hdr_log, V2DeflateSerializer::new());
    let mut hdr_log = hdr_log
        .as_mut()
        .map(|(path, file)| Output::new(path, begin_log(file, &mut serializer, opened)));
    let mut csv = per_second.map(|(path, mut file)| {
        let head = writeln!(file, "{CSV_HEAD}");
        Output::new(&path, head.map(|()| file))
    });
    let empty = latencies();
    // Seconds that are over: of all, and of those whose counts are final.
    let (mut over, mut told) = (0, 0);
    let mut rows = VecDeque::new();
    while let Some((seconds, length)) = source.wait(over) {
        if seconds.overrun {
            return Err(format!(
                "the files end after {over} s: the disk took nothing for {MOST_UNTAKEN} s"
            ));
        }
        let mut ended = seconds.latencies.iter().peekable();
        for second in over..seconds.until {
            let some = ended.next_if(|(number, _)| *number == second);
            let some = some.map_or(&empty, |(_, latencies)| latencies);
            let begun = Duration::from_secs(second as u64);
            let took = length.map_or(SECOND, |length| SECOND.min(length - begun));
            if let Some(log) = &mut hdr_log {
                log.write(|log| {
                    let logged = log.write_histogram(some, begun, took, None);
                    logged.map_err(|error| match error {
                        IntervalLogWriterError::IoError(error) => error,
                        IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
                    })
                });
            }
            rows.push_back(Row {
                events: some.len(),
                latency: Latency::of(some),
            });
        }
        over = seconds.until;
        for (row, (figure, errors)) in rows.drain(..seconds.counts.len()).zip(seconds.counts) {
            if let Some(csv) = &mut csv {
                csv.write(|csv| write_row(csv, [told, figure, row.events, errors], row.latency.as_ref()));
            }
            told += 1;
        }
        if length.is_some() {
            break;
        }
    }
    let failures = [
        hdr_log.as_ref().and_then(Output::failure),
        csv.as_ref().and_then(Output::failure),
    ];
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("; "))
}

fn begin_log<'a>(
    file: &'a mut LineWriter<File>,
    serializer: &'a mut V2DeflateSerializer,
    opened: SystemTime,
) -> io::Result<IntervalLogWriter<'a, 'a, LineWriter<File>, V2DeflateSerializer>> {
    let mut log = IntervalLogWriterBuilder::new();
    log.add_comment("flushlab: latencies in nanoseconds")
        .with_start_time(opened)
        .with_base_time(opened)
        .with_max_value_divisor(1e6)
        .begin_log_with(file, serializer)
}

fn write_row(file: &mut impl Write, counts: [u64; 4], latency: Option<&Latency>) -> io::Result<()> {
    let [second, figure, events, errors] = counts;
    write!(file, "{second},{figure},{events},{errors},")?;
    match latency {
        None => writeln!(file, ",,,,,,"),
        Some(Latency {
            mean,
            p50,
            p90,
            p95,
            p99,
            p999,
            max,
        }) => writeln!(file, "{mean:.1},{p50},{p90},{p95},{p99},{p999},{max}"),
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use hdrhistogram::serialization::Deserializer;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;
    use crate::histogram::Latencies;
    use crate::meter::{Answered, Ended, Shape};
    use crate::workload::Effect;

    const SHAPE: Shape = Shape {
        statements: 1,
        transaction_of: Vec::new(),
        sessions: 1,
        open_loop: false,
        seconds: true,
    };

    fn ago(millis: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_millis(millis)).unwrap()
    }

    /// A meter whose window was opened so long ago.
    fn meter(millis: u64) -> (Arc<Mutex<Meter>>, Instant) {
        let start = ago(millis);
        let mut meter = Meter::new(start);
        meter.open(start, Window::new(SHAPE));
        (Arc::new(Mutex::new(meter)), start)
    }

    /// An event that ends now and took so long.
    fn answer(meter: &Mutex<Meter>, millis: u64) {
        let begun = ago(millis);
        locked(meter).answered(Answered {
            session: 0,
            statement: 0,
            sent: begun,
            commits: true,
            event: Some(Ended {
                begun,
                effect: Effect::TRANSACTION,
                waits: false,
            }),
        });
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("flushlab-seconds-{}-{name}", std::process::id()))
    }

    fn finish(writer: SecondsWriter, meter: &Mutex<Meter>, length: Duration) -> Option<String> {
        locked(meter).close();
        let mut window = locked(meter).take_settled().unwrap();
        let rest = writer.finish(&mut window, length);
        rest.wait(Duration::from_secs(60), SECOND, || false)
            .expect("nothing interrupts it")
    }

    #[test]
    fn a_disk_that_takes_nothing_holds_up_neither_the_result_nor_an_interruption() {
        let name = path("hangs");
        nix::unistd::mkfifo(&name, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // A pipe that is full, and that nobody reads.
        let mut pipe = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(&name)
            .unwrap();
        while pipe.write(&[0; 4096]).is_ok() {}
        for interrupts in [false, true] {
            let files = SecondFiles {
                hdr_log: Some(name.clone()),
                per_second: None,
            };
            let (meter, start) = meter(100);
            answer(&meter, 7);
            let writer = SecondsWriter::start(&files, meter.clone(), start).unwrap();
            locked(&meter).close();
            let mut window = locked(&meter).take_settled().unwrap();
            let rest = writer.finish(&mut window, Duration::from_millis(100));
            let most = if interrupts { 600.0 } else { 0.3 };
            let outcome = rest.wait(Duration::from_secs_f64(most), Duration::from_millis(10), || {
                interrupts
            });
            match outcome {
                Some(unwritten) => assert!(
                    !interrupts && unwritten.as_ref().unwrap().contains("incomplete"),
                    "{unwritten:?}"
                ),
                None => assert!(interrupts),
            }
        }
        std::fs::remove_file(&name).unwrap();
    }

    #[test]
    fn the_hdr_log_is_read_by_hdrhistograms_own_reader() {
        let files = SecondFiles {
            hdr_log: Some(path("hdr")),
            per_second: Some(path("csv")),
        };
        let (meter, start) = meter(2100);
        answer(&meter, 7);
        answer(&meter, 40);
        let writer = SecondsWriter::start(&files, meter.clone(), start).unwrap();
        assert_eq!(finish(writer, &meter, Duration::from_millis(2500)), None);

        let log = std::fs::read_to_string(path("hdr")).unwrap();
        let mut histograms = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let bytes = base64(interval.encoded_histogram());
                let read: Latencies = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                histograms.push((
                    interval.start_timestamp(),
                    interval.duration(),
                    interval.max(),
                    read,
                ));
            }
        }
        assert_eq!(histograms.len(), 3);
        let (start, length, max, last) = &histograms[2];
        assert_eq!(
            (*start, *length),
            (Duration::from_secs(2), Duration::from_millis(500))
        );
        assert!((40.0..42.0).contains(max), "{max}");
        assert_eq!(last.len(), 2);
        assert!(histograms[0].3.is_empty() && histograms[1].3.is_empty());

        let csv = std::fs::read_to_string(path("csv")).unwrap();
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[..3], [CSV_HEAD, "0,0,0,0,,,,,,,", "1,0,0,0,,,,,,,"]);
        assert!(lines[3].starts_with("2,2,2,0,23") && lines.len() == 4, "{csv}");
        for name in ["hdr", "csv"] {
            std::fs::remove_file(path(name)).unwrap();
        }
    }

    #[test]
    fn a_second_is_in_the_files_as_soon_as_it_is_over() {
        let files = SecondFiles {
            hdr_log: None,
            per_second: Some(path("soon")),
        };
        let (meter, start) = meter(300);
        answer(&meter, 5);
        let writer = SecondsWriter::start(&files, meter.clone(), start).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let written = || std::fs::read_to_string(path("soon")).unwrap();
        while !written().contains("\n0,1,1,0,") {
            assert!(Instant::now() < deadline, "{}", written());
            std::thread::yield_now();
        }
        writer.abandon();
        std::fs::remove_file(path("soon")).unwrap();
    }

    #[test]
    fn a_full_disk_is_told_and_the_other_file_goes_on() {
        let files = SecondFiles {
            hdr_log: Some("/dev/full".into()),
            per_second: Some(path("other")),
        };
        let (meter, start) = meter(100);
        answer(&meter, 5);
        let writer = SecondsWriter::start(&files, meter.clone(), start).unwrap();
        let told = finish(writer, &meter, Duration::from_millis(200)).unwrap();
        assert_eq!(told, "/dev/full is incomplete: No space left on device");
        assert_eq!(std::fs::read_to_string(path("other")).unwrap().lines().count(), 2);
        std::fs::remove_file(path("other")).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_made_is_refused_at_once() {
        let files = SecondFiles {
            per_second: Some("/nonexistent/seconds".into()),
            ..SecondFiles::default()
        };
        let (meter, start) = meter(0);
        let error = SecondsWriter::start(&files, meter, start).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Storage);
        assert!(error.message.contains("/nonexistent/seconds") && error.hint.is_some());

        std::fs::write(path("users"), "theirs").unwrap();
        std::os::unix::fs::symlink(path("users"), path("link")).unwrap();
        let files = SecondFiles {
            per_second: Some(path("link")),
            ..SecondFiles::default()
        };
        let (meter, start) = self::meter(0);
        let error = SecondsWriter::start(&files, meter, start).unwrap_err();
        assert!(error.message.contains("symbolic link"), "{}", error.message);
        assert_eq!(std::fs::read_to_string(path("users")).unwrap(), "theirs");
        for name in ["users", "link"] {
            std::fs::remove_file(path(name)).unwrap();
        }
    }

    fn base64(text: &str) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut bytes = Vec::new();
        for four in text.trim_end_matches('=').as_bytes().chunks(4) {
            let bits = four
                .iter()
                .fold(0u32, |bits, &byte| bits << 6 | u32::from(digit(byte)));
            let bits = bits << (6 * (4 - four.len()) + 8);
            bytes.extend(&bits.to_be_bytes()[..four.len() * 6 / 8]);
        }
        bytes
    }
}
