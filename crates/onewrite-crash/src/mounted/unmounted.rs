//! Unmounted: judges the image that an unmount left, without mounting it, and the space that the next mount finds.

use std::rc::Rc;

use onewrite_block::{Executor, Image};
use onewrite_fs::{FileSystem, FileView, FsResult, Space};

use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::judge::{Breach, Promise};
use crate::model::Listing;
use crate::options::ExploreOptions;
use crate::read_tree::Extended;
use crate::subject::{Purpose, Subject};
use crate::view::{viewed, wrong_in_view};

/// The image that an unmount left.
pub(super) struct Unmounted<'a, S> {
    pub(super) subject: &'a Rc<S>,
    pub(super) image: Image,
    pub(super) extended: Extended,
    pub(super) options: &'a ExploreOptions,
    /// Whether the foreign checker looks at it.
    pub(super) asks_stranger: bool,
}

impl<S: Subject> Unmounted<'_, S> {
    /// What is wrong with it. `done` is its tree, if that is known, `space` what was there before the unmount, if
    /// nothing but names kept blocks then.
    ///
    /// # Errors
    /// If the foreign checker cannot be run.
    pub(super) fn breach(&self, done: Option<&Listing>, space: Option<Space>) -> Result<Option<Breach>, CrashError> {
        let found = self.finding()?.map(|what| (Promise::Structure, what));
        let found =
            found.or_else(|| self.left_to_do()).or_else(|| self.wrong_view(done?)).or_else(|| self.lost(space?));
        let breach =
            |(promise, what)| Breach { promise, what: format!("{what} (behind the unmount)"), difference: vec![] };
        Ok(found.map(breach))
    }

    /// What checkers find: our own, and the foreign one if it is asked.
    fn finding(&self) -> Result<Option<String>, CrashError> {
        let findings = self.subject.findings(&self.image, &mut |_| ());
        match findings.is_empty() {
            false => Ok(Some(findings.join("; "))),
            true if self.asks_stranger => self.subject.stranger_finding(&self.image),
            true => Ok(None),
        }
    }

    fn left_to_do(&self) -> Option<(Promise, String)> {
        let left = self.subject.left_to_do(&self.image)?;
        Some((Promise::Service, format!("the next mount has to do what the unmount left: {left}")))
    }

    fn wrong_view(&self, done: &Listing) -> Option<(Promise, String)> {
        let viewed = viewed(self.subject, &self.image, &self.options.geometry, self.extended);
        wrong_in_view(done, viewed).map(|wrong| (Promise::Reading, wrong))
    }

    fn lost(&self, before: Space) -> Option<(Promise, String)> {
        let wrong = match self.space() {
            Ok(after) if after == before => return None,
            Ok(after) => format!("the next mount finds another space: {before:?} was there, now {after:?}"),
            Err(error) => error,
        };
        Some((Promise::Service, wrong))
    }

    /// The space that the next mount finds.
    fn space(&self) -> Result<Space, String> {
        let medium = Medium::new(self.image.clone());
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &self.options.geometry)));
        let (subject, mounting) = (Rc::clone(self.subject), self.options.mounting(Purpose::Recovery));
        let work = async move {
            let fs = subject.mount(port, mounting).await?;
            let space = fs.space().await?;
            fs.unmount().await?;
            FsResult::Ok(space)
        };
        let outcome = executor.block_on(work).map_err(|halt| halt.to_string())?;
        drop(executor);
        outcome.map_err(|error| error.to_string())
    }
}
