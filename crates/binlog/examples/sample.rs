//! Writes a small log: `cargo run --example sample -- FOLDER 9.7.4 [MAX_SIZE]`.

use std::path::Path;

use flushlab_binlog::sample::{write_sample, SampleOptions};
use flushlab_binlog::{Format, Identity, Uuid};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, version, rest @ ..] = arguments.as_slice() else {
        return Err("give a folder and a server's version".into());
    };
    let identity = Identity {
        server_id: 7,
        uuid: Uuid([7; 16]),
        domain: 0,
    };
    let format = Format::new(version, identity)?;
    let options = SampleOptions {
        schema: "t".to_owned(),
        updates: 500,
        max_size: rest.first().map_or(Ok(u64::MAX), |size| size.parse())?,
        close: true,
    };
    println!("{:?}", write_sample(&format, Path::new(folder), &options)?);
    Ok(())
}
