//! Attachments under safe names.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use adapters::Attachment;

/// Most file systems hold 255 bytes; room for a number.
const LONGEST: usize = 200;

/// Writes them into the folder, each under a name that is its own.
pub fn write(attachments: &[Attachment], folder: &Path) -> io::Result<()> {
    names(attachments).iter().zip(attachments).try_for_each(|(name, attachment)| fs::write(folder.join(name), &attachment.body))
}

/// The names that they have there.
pub fn names(attachments: &[Attachment]) -> Vec<String> {
    let mut taken = HashSet::new();
    attachments.iter().map(|attachment| free_name(&attachment.name, &mut taken)).collect()
}

/// The last part of what the client called it, without what a path, a shell or a terminal would take for more than a letter, numbered where it is taken.
fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last.chars().map(|c| if c.is_alphanumeric() || "-_. ()+,@".contains(c) { c } else { '_' }).collect();
    let plain = plain.trim().trim_start_matches(['.', '-']);
    let plain = if plain.is_empty() { "file" } else { plain };
    let (stem, extension) = match plain.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && extension.len() <= 16 => (stem, format!(".{extension}")),
        _ => (plain, String::new()),
    };
    let stem = &stem[..stem.floor_char_boundary(LONGEST)];
    let mut free = format!("{stem}{extension}");
    let mut n = 2;
    while !taken.insert(free.to_lowercase()) {
        free = format!("{stem}-{n}{extension}");
        n += 1;
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder_or_replaces_another() {
        let mut taken = HashSet::new();
        let names = ["../../etc/passwd", "/etc/passwd", "a.txt", "A.txt", "..", "", "x\ny\u{1b}[31m", "-rf", "C:\\dir\\b.txt", ".hidden"];
        let safe: Vec<String> = names.iter().map(|name| free_name(name, &mut taken)).collect();
        assert_eq!(safe, ["passwd", "passwd-2", "a.txt", "A-2.txt", "file", "file-2", "x_y__31m", "rf", "b.txt", "hidden"]);
        let long = free_name(&format!("{}.png", "ü".repeat(400)), &mut taken);
        assert!(long.len() <= LONGEST + 4 && long.ends_with(".png"));
    }
}
