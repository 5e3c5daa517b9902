//! Recorder: the recorded disk under a program's run.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{Device, Image};

use super::Application;
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::options::ExploreOptions;
use crate::perform::new_image;
use crate::subject::Subject;

/// Records a run. Its disk works at the pace of the executor: in wall time if programs use it.
pub struct Recorder {
    base: Image,
    recording: Rc<RefCell<Recording>>,
}

impl Recorder {
    /// Formats a new image and returns the disk that holds it, which records.
    ///
    /// # Errors
    /// [`CrashError::Image`] if the options fit no image.
    pub fn new<S: Subject>(subject: &S, options: &ExploreOptions) -> Result<(Recorder, Box<dyn Device>), CrashError> {
        let base = new_image(subject, options)?;
        let recording = Rc::new(RefCell::new(Recording::default()));
        let disk = Disk::paced(&Medium::new(base.clone()), &options.geometry, options.pace());
        let recorded = Box::new(Recorded::new(Box::new(disk), Rc::clone(&recording)));
        Ok((Recorder { base, recording }, subject.layer(recorded)))
    }

    /// Formats a new image for a run that is recorded elsewhere; see [`Application::recorded`].
    ///
    /// # Errors
    /// [`CrashError::Image`] if the options fit no image.
    pub fn image<S: Subject>(subject: &S, options: &ExploreOptions) -> Result<Image, CrashError> {
        new_image(subject, options)
    }

    /// Returns a function that notes that token `n` was acknowledged. What is durable at this moment must survive.
    pub fn marker(&self) -> impl Fn(u64) + 'static {
        let recording = Rc::clone(&self.recording);
        move |token| recording.borrow_mut().push(RecordedEvent::Mark(token))
    }

    /// Ends the recording; `tokens` are the acknowledged ones in order.
    pub fn finish(self, tokens: Vec<String>) -> Application {
        let events = std::mem::take(&mut self.recording.borrow_mut().events);
        Application { base: self.base, events, tokens }
    }
}
