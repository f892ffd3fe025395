//! The laws of a run, without a database: what is stored is read for ever, what is decided folds, and every run ends.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod simulation;
