//! Page cache and replacement policies.
