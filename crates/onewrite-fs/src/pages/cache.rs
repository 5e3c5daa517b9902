//! The page cache of a mount, from its options.

use onewrite_cache::{CacheShape, PageCache, PolicyKind};

use crate::api::{FsError, FsResult};

/// Pages of the smallest page cache.
pub(crate) const CACHE_PAGES_MIN: usize = 256;

/// An empty cache of `capacity` pages under `policy`, to which `flash_block` pages are one flash block.
///
/// # Errors
/// [`FsError::Invalid`] if the cache is too small or its policy needs to know the future.
pub(crate) fn page_cache(capacity: usize, policy: PolicyKind, flash_block: u64) -> FsResult<PageCache> {
    if capacity < CACHE_PAGES_MIN {
        return Err(FsError::Invalid(format!("a page cache of {capacity} pages; at least {CACHE_PAGES_MIN} (1 MiB)")));
    }
    let shape = CacheShape::new(capacity as u64, flash_block).map_err(FsError::Invalid)?;
    let usable = policy.policy(shape).ok_or_else(|| FsError::Invalid(knows_the_future(policy)))?;
    Ok(PageCache::new(capacity, usable))
}

fn knows_the_future(policy: PolicyKind) -> String {
    let usable = PolicyKind::ALL.into_iter().filter(|kind| !kind.needs_future()).map(PolicyKind::name);
    let usable = usable.collect::<Vec<_>>().join(", ");
    format!("cache policy `{policy}` knows the future, so only `onewrite cache` has it; use {usable}")
}
