//! Known: keys of fio that change nothing here, keys that are not supported, and suggestions for typos.

/// Keys that are read but have no effect on any measurement here, with the reason.
pub const INERT: &[(&str, &[&str])] = &[
    (
        "it only describes or reports",
        &[
            "description",
            "disk_util",
            "gtod_reduce",
            "gtod_cpu",
            "clocksource",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "disable_bw",
            "clat_percentiles",
            "lat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "significant_figures",
            "unified_rw_reporting",
            "stats",
            "block_error_percentiles",
            "unit_base",
            "error_dump",
            "verify_dump",
            "bwavgtime",
            "iopsavgtime",
            "threads",
        ],
    ),
    (
        "logs are written by `--json`, `--trace` and `--page-trace`",
        &[
            "per_job_logs",
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "log_entries",
            "log_avg_msec",
            "log_hist_msec",
            "log_hist_coarseness",
            "log_max_value",
            "log_offset",
            "log_prio",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "write_iolog",
            "verify_state_save",
        ],
    ),
    (
        "processors, memory and priorities belong to the host profile",
        &[
            "nice",
            "prio",
            "prioclass",
            "cpus_allowed",
            "cpumask",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "mem",
            "iomem",
            "mem_align",
            "iomem_align",
            "hugepage-size",
            "lockmem",
            "cgroup",
            "cgroup_weight",
            "cgroup_nodelete",
            "uid",
            "gid",
            "thread",
            "thinktime_spin",
            "verify_async",
            "verify_async_cpus",
            "cmdprio",
            "cmdprio_class",
            "cmdprio_percentage",
            "cmdprio_bssplit",
        ],
    ),
    (
        "requests are handed over one by one",
        &[
            "iodepth_batch",
            "iodepth_batch_submit",
            "iodepth_batch_complete",
            "iodepth_batch_complete_min",
            "iodepth_batch_complete_max",
            "iodepth_low",
            "io_submit_mode",
            "hipri",
            "hipri_percentage",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "nonvectored",
            "force_async",
            "userspace_reap",
            "nowait",
            "uncached",
            "ioscheduler",
            "thp",
        ],
    ),
    (
        "no device here looks at the bytes; `buffer_compress_percentage` is what counts",
        &[
            "zero_buffers",
            "refill_buffers",
            "scramble_buffers",
            "buffer_pattern",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "dedupe_mode",
            "dedupe_working_set_percentage",
            "dedupe_global",
            "verify_pattern",
            "verify_interval",
            "verify_offset",
        ],
    ),
    ("chance comes from `--seed`", &["randrepeat", "allrandrepeat", "random_generator"]),
    ("a hint that nothing here takes", &["fadvise_hint", "write_hint", "stream_id"]),
    (
        "files are made one after the other, before the jobs; all are open at once",
        &["create_serialize", "create_fsync", "openfiles", "lockfile", "allow_mounted_write", "unique_filename"],
    ),
    ("a wrong block or a failure ends the run at once", &["verify_fatal", "exitall_on_error"]),
    (
        "it belongs to zonemode=zbd, which is refused",
        &[
            "zonecapacity",
            "read_beyond_wp",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
        ],
    ),
    ("an iolog is read whole", &["read_iolog_chunked"]),
];

/// Keys of fio that Onewrite does not support.
pub const UNSUPPORTED: &[&str] = &[
    "opendir",
    "serialize_overlap",
    "file_append",
    "softrandommap",
    "write_barrier",
    "sync_file_range",
    "atomic",
    "verify_only",
    "experimental_verify",
    "verify_state_load",
    "trim_percentage",
    "trim_verify_zero",
    "trim_backlog",
    "trim_backlog_batch",
    "merge_blktrace_file",
    "merge_blktrace_scalars",
    "merge_blktrace_iters",
    "exec_prerun",
    "exec_postrun",
    "profile",
    "kb_base",
    "unlink_each_loop",
];

/// Keys of fio engines that have no meaning here, with the engines.
pub const OF_ENGINES: &[(&str, &[&str])] = &[
    ("cpuio", &["cpuload", "cpuchunks", "cpumode", "exit_on_io_done"]),
    (
        "net and netsplice",
        &[
            "hostname",
            "port",
            "protocol",
            "proto",
            "nodelay",
            "listen",
            "pingpong",
            "interface",
            "ttl",
            "window_size",
            "mss",
        ],
    ),
    ("rdma", &["bindname", "verb"]),
    ("exec", &["program", "arguments", "grace_time", "std_redirect"]),
    ("e4defrag", &["donorname", "inplace"]),
    ("gfapi", &["volume", "brick", "single-instance"]),
    ("mtd", &["skip_bad"]),
    ("sg", &["readfua", "writefua", "sg_write_mode"]),
    ("io_uring_cmd", &["cmd_type"]),
    ("nbd", &["uri"]),
    ("rados and rbd", &["clustername", "pool", "clientname", "conf", "busy_poll", "touch_objects", "rbdname"]),
    ("dfs", &["cont", "chunk_size", "object_class"]),
    (
        "http",
        &[
            "https",
            "http_host",
            "http_user",
            "http_pass",
            "http_mode",
            "http_s3_region",
            "http_s3_key",
            "http_s3_keyid",
            "http_s3_sse_customer_key",
            "http_s3_sse_customer_algorithm",
            "http_s3_storage_class",
            "http_swift_auth_token",
            "http_verbose",
        ],
    ),
    ("libhdfs", &["namenode", "hdfsdirectory"]),
    ("libcufile", &["gpu_dev_ids", "gpu_dev_id", "cuda_io"]),
    ("librpma", &["serverip", "direct_write_to_pmem", "busy_wait_polling"]),
    ("nfs", &["nfs_url"]),
    ("xnvme", &["xnvme_async", "xnvme_sync", "xnvme_admin", "xnvme_dev_nsid", "xnvme_iovec"]),
];

/// Engines of fio that never reach a file system or a disk of this machine, with what they reach instead.
pub const ENGINES_ELSEWHERE: &[(&str, &str)] = &[
    ("null", "no device at all"),
    ("cpp_null", "no device at all"),
    ("cpuio", "the processor only"),
    ("exec", "a program"),
    ("net", "the network"),
    ("netsplice", "the network"),
    ("rdma", "the network"),
    ("librpma_apm_client", "memory across the network"),
    ("librpma_apm_server", "memory across the network"),
    ("librpma_gpspm_client", "memory across the network"),
    ("librpma_gpspm_server", "memory across the network"),
    ("nbd", "a server"),
    ("nfs", "a server"),
    ("http", "a server"),
    ("gfapi", "a server"),
    ("gfapi_async", "a server"),
    ("libhdfs", "a server"),
    ("libiscsi", "a server"),
    ("rados", "a server"),
    ("rbd", "a server"),
    ("dfs", "a server"),
    ("ime_psync", "a server"),
    ("ime_psyncv", "a server"),
    ("ime_aio", "a server"),
    ("libcufile", "a graphics card"),
    ("pmemblk", "persistent memory"),
    ("libpmem", "persistent memory"),
    ("dev-dax", "persistent memory"),
    ("mtd", "bare flash"),
    ("sg", "a disk by SCSI commands"),
    ("libzbc", "a disk of zones"),
    ("io_uring_cmd", "a disk by NVMe commands"),
    ("xnvme", "a disk by NVMe commands"),
    ("libblkio", "a disk by its own driver"),
    ("e4defrag", "the kernel's ext4 by an ioctl"),
    ("windowsaio", "Windows"),
    ("solarisaio", "Solaris"),
    ("external", "a library of its own"),
];

/// Why `key` has no effect; `None` if it has one or is unknown.
pub(crate) fn inert(key: &str) -> Option<&'static str> {
    INERT.iter().find(|(_, keys)| keys.contains(&key)).map(|(reason, _)| *reason)
}

/// The engines that `key` belongs to.
pub(crate) fn engine_of(key: &str) -> Option<&'static str> {
    OF_ENGINES.iter().find(|(_, keys)| keys.contains(&key)).map(|(engine, _)| *engine)
}

/// The key nearest to `typo`: at most two letters differ, and at most half of them.
pub(crate) fn nearest<'a>(typo: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (typo.len() / 2).min(2);
    let near =
        known.map(|key| (distance(typo.as_bytes(), key.as_bytes()), key)).filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, key)| key)
}

/// Number of letters to insert, remove, replace or swap with a neighbour (optimal string alignment).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let width = other.len() + 1;
    let mut rows: Vec<usize> = (0..width * (one.len() + 1)).map(|cell| if cell < width { cell } else { 0 }).collect();
    for i in 1..=one.len() {
        rows[i * width] = i;
        for j in 1..width {
            let above = (i - 1) * width;
            let replaced = rows[above + j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[above + j] + 1).min(rows[i * width + j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[above - width + j - 2] + 1);
            }
            rows[i * width + j] = least;
        }
    }
    rows[width * (one.len() + 1) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found() {
        let known = ["bs", "rw", "iodepth", "runtime", "rate_iops"];
        let nearest = |typo| nearest(typo, known.into_iter());
        assert_eq!(nearest("iodept"), Some("iodepth"));
        assert_eq!(nearest("rutnime"), Some("runtime"));
        assert_eq!(nearest("rate-iops"), Some("rate_iops"));
        assert_eq!((nearest("zzz"), nearest("b")), (None, None));
    }
}
