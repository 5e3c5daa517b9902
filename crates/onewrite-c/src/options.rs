//! Options: parses the text of options of `ow_open`, which reads as that of `onewrite mount -o`.

use onewrite_block::{Nanos, PAGE_SIZE};
use onewrite_fs::ext4::{Mode, MountOptions};
use rustix::io::Errno;

use crate::failure::Failure;

const KNOWN: &str = "data=MODE, ro, rw, cache=SIZE, commit=SECONDS";

/// Parses `text`, items between commas. Of two that contradict each other the last one counts.
///
/// # Errors
/// EINVAL with the first option that is unknown or has a wrong value.
pub(crate) fn parse(text: &[u8]) -> Result<MountOptions, Failure> {
    let text = String::from_utf8_lossy(text);
    let mut options = MountOptions::for_programs(Mode::Ordered);
    for option in text.split(',').filter(|option| !option.is_empty()) {
        take(&mut options, option)
            .map_err(|problem| Failure::new(Errno::INVAL, format!("option {option}: {problem}")))?;
    }
    Ok(options)
}

fn take(options: &mut MountOptions, option: &str) -> Result<(), String> {
    match option.split_once('=') {
        Some(("data", name)) => options.mode = name.parse::<Mode>().map_err(|error| error.to_string())?,
        Some(("cache", size)) => options.cache_pages = pages(size)?,
        Some(("commit", seconds)) => options.commit_interval = interval(seconds)?,
        None if matches!(option, "ro" | "rw") => options.read_only = option == "ro",
        _ => return Err(format!("no such option; there are {KNOWN}")),
    }
    Ok(())
}

fn pages(text: &str) -> Result<usize, String> {
    let least = MountOptions::CACHE_PAGES_MIN;
    match bytes(text).map(|bytes| bytes / PAGE_SIZE) {
        None => Err(format!("`{text}` is not a size; write 4194304, 4096K, 64M or 1G")),
        Some(pages) if pages < least => Err(format!("at least {}K are needed", least * PAGE_SIZE / 1024)),
        Some(pages) => Ok(pages),
    }
}

/// Bytes; K, M and G are powers of 1024.
fn bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

fn interval(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Nanos::from_secs(seconds)),
        _ => Err(format!("`{text}` is no number of seconds from 1 to 86400")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_as_those_of_the_mount() {
        let options = parse(b"data=data+async,ro,cache=8M,commit=30,,").unwrap();
        assert_eq!((options.mode, options.read_only), (Mode::DataAsync, true));
        assert_eq!((options.cache_pages, options.commit_interval), (2048, Nanos::from_secs(30)));
        assert_eq!(parse(b"").unwrap(), MountOptions::for_programs(Mode::Ordered));
        assert!(!parse(b"ro,rw").unwrap().read_only);
    }

    #[test]
    fn wrong_options_are_named() {
        let told = |text: &str| format!("{:?}", parse(text.as_bytes()).unwrap_err());
        assert!(told("ro,acl").contains("option acl: no such option; there are data=MODE"));
        assert!(told("data=journal").contains("option data=journal: "));
        assert!(told("cache=8K").contains("at least 1024K"));
        assert!(
            ["cache=", "cache=M", "cache=-1", "cache=lots", "cache=99999999999999999999G", "commit=0", "data"]
                .iter()
                .all(|text| parse(text.as_bytes()).is_err())
        );
    }
}
