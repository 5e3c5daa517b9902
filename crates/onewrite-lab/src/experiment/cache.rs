//! Cache: what a cache study is made of, as people name it.

use std::path::{Path, PathBuf};

use onewrite_cache::PolicyKind;
use onewrite_device::Profile;

use super::{LayerChoice, refused};
use crate::cache::{CacheStudy, DevicePlan, HELD_MAX};
use crate::error::LabError;
use crate::size::SizeOrShare;
use crate::trace::{Action, Format, TraceOptions, Volumes};

/// How a trace is to be read.
#[derive(Clone, Debug)]
pub struct TraceChoice {
    /// Its format; `None`: found out.
    pub format: Option<Format>,
    /// The only volume to read.
    pub volume: Option<u32>,
    /// Whether volumes lie directly one after the other.
    pub pack: bool,
    /// Which records of blkparse and blktrace.
    pub action: Option<Action>,
    /// Bytes of a page.
    pub page_size: u64,
}

/// The fields are the options of `onewrite cache`.
#[derive(Clone, Debug)]
pub struct CacheExperiment {
    /// The trace.
    pub trace: PathBuf,
    /// How to read it.
    pub input: TraceChoice,
    /// Names of policies, or `all`.
    pub policies: Vec<String>,
    /// Sizes of the cache.
    pub sizes: Vec<SizeOrShare>,
    /// Bytes of a flash block.
    pub flash_block: u64,
    /// Path of the after-cache trace.
    pub after: Option<PathBuf>,
    /// Profile of the device that takes the after-cache trace.
    pub device: Option<String>,
    /// Whether it takes it at the times of the trace.
    pub timed: bool,
    /// Its translation layer.
    pub layer: LayerChoice,
    /// Its bytes.
    pub device_size: Option<u64>,
    /// Whether it begins blank.
    pub blank: bool,
    /// Bytes written to it before.
    pub age: u64,
    /// Cores to use; 0: all.
    pub threads: usize,
}

impl TraceChoice {
    /// How to read the trace at `path`. For packed volumes, reads it once beforehand.
    ///
    /// # Errors
    /// A trace that cannot be read; pages without size.
    pub fn options(&self, path: &Path) -> Result<TraceOptions, LabError> {
        if self.page_size == 0 {
            return refused("--page-size 0 is no size; take 4096");
        }
        let plain =
            TraceOptions { format: self.format.clone(), volume: self.volume, action: self.action, packing: None };
        let packing = match (self.pack, self.volume) {
            (true, _) => Some(Volumes::of(path, &plain, self.page_size)?.packed(self.page_size)?),
            (false, volume) => volume.map(|volume| Volumes::alone(volume, self.page_size)),
        };
        Ok(TraceOptions { packing, ..plain })
    }
}

impl CacheExperiment {
    /// The trace at `trace` with every policy at 4 MiB, and all other defaults.
    pub fn new(trace: impl Into<PathBuf>) -> CacheExperiment {
        CacheExperiment {
            trace: trace.into(),
            input: TraceChoice { format: None, volume: None, pack: false, action: None, page_size: 4096 },
            policies: vec!["all".to_owned()],
            sizes: vec![SizeOrShare::Bytes(4 << 20)],
            flash_block: 4 << 20,
            after: None,
            device: None,
            timed: false,
            layer: LayerChoice::default(),
            device_size: None,
            blank: false,
            age: 0,
            threads: 0,
        }
    }

    /// The study of the trace, read as `options` say.
    ///
    /// # Errors
    /// What is not known or makes no sense.
    pub fn study(&self, options: TraceOptions) -> Result<CacheStudy, LabError> {
        let needs_device = self.layer.layer()?.is_some() || self.blank || self.device_size.is_some() || self.age > 0;
        if needs_device && self.device.is_none() {
            return refused("--ftl, --device-size, --blank and --age belong to --device; name one");
        }
        Ok(CacheStudy {
            trace: self.trace.clone(),
            policies: self.policies()?,
            sizes: self.sizes.clone(),
            options,
            page_bytes: self.input.page_size,
            flash_block_bytes: self.flash_block,
            after: self.after.clone(),
            device: self.device.as_deref().map(|name| self.plan(name)).transpose()?,
            threads: self.threads,
            held_max: HELD_MAX,
            is_timed: self.timed,
        })
    }

    fn plan(&self, name: &str) -> Result<DevicePlan, LabError> {
        Ok(DevicePlan {
            layer: self.layer.layer()?,
            profile: Profile::load(name)?,
            size_bytes: self.device_size,
            is_blank: self.blank,
            age_bytes: self.age,
        })
    }

    fn policies(&self) -> Result<Vec<PolicyKind>, LabError> {
        if self.policies == ["all"] {
            return Ok(PolicyKind::ALL.to_vec());
        }
        self.policies.iter().map(|name| name.trim().parse().map_err(LabError::Option)).collect()
    }
}
