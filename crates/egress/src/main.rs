//! Egress's program. `run FOLDER` sees to it that one runs there, `end FOLDER` ends it unless it is in use; `daemon` is the process itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match (args.first().and_then(|arg| arg.to_str()), args.get(1)) {
        (Some("run"), Some(folder)) => egress::run(folder.as_ref()),
        (Some("end"), Some(folder)) => egress::end(folder.as_ref()).map(|()| None),
        (Some("daemon"), Some(folder)) => egress::daemon(folder.as_ref()).map(|()| None),
        (Some("--version"), None) => Ok(Some(format!("sandlog-egress {}", env!("CARGO_PKG_VERSION")))),
        _ => Err(std::io::Error::other("usage: sandlog-egress run FOLDER | end FOLDER")),
    };
    match done {
        Ok(said) => {
            said.iter().for_each(|said| println!("{said}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
