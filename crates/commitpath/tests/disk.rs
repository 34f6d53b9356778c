//! Measurements of a real folder: what they count, what they refuse, what they leave.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use flushlab_commitpath::disk::{measure, Figure, Layout, Order, Outcome, Spec, Way};
use flushlab_commitpath::ErrorKind;

const WAYS: [Way; 6] = [
    Way::Fsync,
    Way::Fdatasync,
    Way::Dsync,
    Way::DirectDsync,
    Way::Direct,
    Way::Pair,
];

fn spec(directory: &Path, way: Way) -> Spec {
    Spec {
        directory: directory.to_owned(),
        way,
        bytes: 4096,
        layout: Layout::Written,
        order: Order::Sequential,
        depth: 1,
        file_bytes: 1 << 20,
        seconds: 0.05,
        stall_seconds: 60.0,
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for files")
}

fn measured(spec: &Spec) -> Figure {
    match measure(spec, &|| false).expect("a measurement") {
        Outcome::Measured(figure) => figure,
        other => panic!("{:?} gave {other:?}", spec.way),
    }
}

#[test]
fn every_way_counts_its_operations() {
    let folder = folder();
    for way in WAYS {
        let figure = measured(&spec(folder.path(), way));
        let mean_us = figure.seconds * 1e6 / figure.operations as f64;
        assert!(figure.operations > 0, "{way:?}");
        assert!(figure.seconds >= 0.05, "{way:?}");
        assert!(figure.latency_us.p50 <= figure.latency_us.p99);
        assert!(figure.latency_us.p99 <= figure.latency_us.max);
        // Latencies fill the window: nothing is between one operation and the next.
        assert!(mean_us <= figure.latency_us.max * 1.01, "{way:?}: {figure:?}");
        assert!(mean_us * 2.0 >= figure.latency_us.p50, "{way:?}: {figure:?}");
    }
}

#[test]
fn no_file_grows_beyond_its_size() {
    let folder = folder();
    for layout in [Layout::Written, Layout::Allocated, Layout::Extending] {
        let mut one = spec(folder.path(), Way::Direct);
        one.layout = layout;
        one.file_bytes = 65_536;
        while measured(&one).operations <= 16 {
            one.seconds *= 2.0; // it has to begin anew, on a slow disk too
            assert!(one.seconds < 60.0, "a disk that takes no writes");
        }
    }
    let mut pair = spec(folder.path(), Way::Pair);
    pair.file_bytes = 65_536;
    measured(&pair);
    for entry in folder.path().read_dir().expect("the folder") {
        let length = entry.and_then(|one| one.metadata()).expect("a file").len();
        assert!(length <= 65_536, "{length}");
    }
}

#[test]
fn each_thread_writes() {
    let folder = folder();
    for order in [Order::Sequential, Order::Random] {
        let mut one = spec(folder.path(), Way::Direct);
        (one.bytes, one.depth, one.order) = (16_384, 4, order);
        // Each has time for a single write.
        one.seconds = 1e-9;
        assert_eq!(measured(&one).operations, 4);
    }
}

#[test]
fn a_block_that_the_device_does_not_take_is_refused_in_words() {
    // 512 bytes are fewer than this page-sized file system block where the device has 4096; elsewhere they fit.
    let folder = folder();
    let mut one = spec(folder.path(), Way::DirectDsync);
    one.bytes = 512;
    match measure(&one, &|| false).expect("no error") {
        Outcome::Measured(figure) => assert!(figure.operations > 0),
        Outcome::Refused(reason) => assert!(reason.contains("512"), "{reason}"),
        Outcome::Stopped => panic!("nobody stopped it"),
    }
}

#[test]
fn it_ends_when_it_is_told_to() {
    let folder = folder();
    let asked = AtomicU32::new(0);
    let mut one = spec(folder.path(), Way::Fdatasync);
    one.seconds = 60.0;
    let outcome = measure(&one, &|| asked.fetch_add(1, Ordering::Relaxed) > 20).expect("no error");
    assert_eq!(outcome, Outcome::Stopped);
    assert!(asked.load(Ordering::Relaxed) < 1000);
}

#[test]
fn a_spec_that_contradicts_itself_is_refused() {
    let folder = folder();
    let broken: [fn(&mut Spec); 7] = [
        |one| one.bytes = 1000,
        |one| one.bytes = 0,
        |one| one.depth = 0,
        |one| one.seconds = f64::NAN,
        |one| one.file_bytes = 4096,
        |one| (one.way, one.layout) = (Way::Pair, Layout::Extending),
        |one| {
            one.layout = Layout::Extending;
            one.depth = 2;
        },
    ];
    for change in broken {
        let mut one = spec(folder.path(), Way::Fsync);
        change(&mut one);
        let error = measure(&one, &|| false).expect_err("a rule is broken");
        assert_eq!(error.kind, ErrorKind::Usage, "{one:?}");
    }
}

#[test]
fn a_folder_that_is_missing_is_an_error_that_names_it() {
    let error = measure(&spec(Path::new("/nonexistent/folder"), Way::Fsync), &|| false);
    let text = error.expect_err("no such folder").to_string();
    assert!(text.contains("/nonexistent/folder"), "{text}");
}
