//! The supervisor of one sandbox: it starts a harness in a bubblewrap sandbox, journals what comes out, feeds what goes in, kills on order, and proves the end.
//!
//! The worker writes a folder with a [`spec`] and starts `sandlog-runner run FOLDER`. From then on the runner's life is its own: workers come and go at its
//! [`door`], take up the [`journal`] where the log has it, and find out who lives by a lock, never by a pid.
//!
//! The law: the journal's exit record is written once, last, and only when the whole process tree is proven gone and its pipes are drained. What has no exit
//! record and no runner is lost, and [`tree::Tree::end`] proves that it is gone too. The harness can reach neither journal nor door.
//!
//! Nothing here knows of runs, events or Postgres. No async: threads, poll and system calls.

pub mod cgroup;
pub mod door;
pub mod egress;
pub mod journal;
pub mod probe;
pub mod procfs;
pub mod spec;
pub mod tree;
