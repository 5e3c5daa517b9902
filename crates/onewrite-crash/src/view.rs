//! View: what an image reads as through a view, which mounts nothing and writes nothing.

use std::rc::Rc;

use onewrite_block::{Executor, Geometry, Image};

use crate::disk::{Disk, Medium};
use crate::model::Listing;
use crate::read_tree::{Extended, read_tree};
use crate::subject::Subject;

/// The tree that a view of `image` shows. `None` if the view does not show all that a mount would.
///
/// # Errors
/// Why the image cannot be opened or read.
pub(crate) fn viewed<S: Subject>(
    subject: &Rc<S>,
    image: &Image,
    geometry: &Geometry,
    extended: Extended,
) -> Result<Option<Listing>, String> {
    let medium = Medium::new(image.clone());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(Disk::instant(&medium, geometry)));
    let subject = Rc::clone(subject);
    let work = async move {
        match subject.view(&port).await? {
            Some(view) => read_tree(&view, extended).await.map(Some),
            None => Ok(None),
        }
    };
    let outcome = executor.block_on(work).map_err(|halt| halt.to_string())?;
    drop(executor);
    match medium.borrow().written.is_empty() {
        true => outcome.map_err(|error| error.to_string()),
        false => Err("it writes to the image".into()),
    }
}

/// What is wrong with the tree that a view shows where `expected` was to be seen.
pub(crate) fn wrong_in_view(expected: &Listing, viewed: Result<Option<Listing>, String>) -> Option<String> {
    match viewed {
        Ok(Some(seen)) if seen.full_hash() != expected.full_hash() => {
            Some(format!("a view shows another tree than a mount: {}", expected.difference(&seen).join("; ")))
        }
        Ok(_) => None,
        Err(error) => Some(format!("a view cannot be read: {error}")),
    }
}
