//! Reading a journal that no runner writes any more.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;

use super::{Body, Decoder};

const CHUNK: usize = 64 * 1024;

/// Whether the journal ends with its exit record. A torn or damaged record ends the look: what a dead runner left half written is no exit record.
pub fn has_exit(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let Some(mut at) = first_record(&file)? else {
        return Ok(false);
    };
    let mut decoder = Decoder::new(at);
    let mut chunk = vec![0; CHUNK];
    loop {
        match decoder.next_record() {
            Ok(Some((record, _))) if matches!(record.body, Body::Exit(_)) => return Ok(true),
            Ok(Some(_)) => {}
            Err(_) => return Ok(false),
            Ok(None) => match file.read_at(&mut chunk, at)? {
                0 => return Ok(false),
                n => {
                    decoder.feed(&chunk[..n]);
                    at += n as u64;
                }
            },
        }
    }
}

/// The first byte that is not zero: all before it is committed and punched out.
fn first_record(file: &File) -> io::Result<Option<u64>> {
    let mut at = match rustix::fs::seek(file, SeekFrom::Data(0)) {
        Ok(at) => at,
        // Nothing but a hole.
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        // No such seek on this file system: from the beginning.
        Err(_) => 0,
    };
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = file.read_at(&mut chunk, at)?;
        if n == 0 {
            return Ok(None);
        }
        if let Some(found) = chunk[..n].iter().position(|byte| *byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += n as u64;
    }
}
