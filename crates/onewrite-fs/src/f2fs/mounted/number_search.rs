//! Where a node lies, and the search for free numbers: what needs the blocks of the NAT.

use super::views::Nodes;
use crate::api::FsResult;
use crate::f2fs::format::Nid;
use crate::f2fs::format::nat::{self, NatEntry};

impl Nodes<'_> {
    /// Where a node lies.
    pub(super) async fn nat_entry(&self, nid: Nid) -> FsResult<NatEntry> {
        let known = self.numbers.borrow().known(nid);
        match known {
            Some(entry) => Ok(entry),
            None => Box::pin(self.read_nat_entry(nid)).await,
        }
    }

    async fn read_nat_entry(&self, nid: Nid) -> FsResult<NatEntry> {
        let (block, index) = nat::position(nid);
        let page = self.meta_block(self.nat_block(block)).await?;
        Ok(self.numbers.borrow_mut().keep(nid, nat::entry(&page.bytes()[..], index)))
    }

    /// Gives a free number to a node of inode `owner`, or of itself.
    ///
    /// # Errors
    /// [`FsError::NoSpace`](crate::FsError::NoSpace) if none is free.
    pub(super) async fn take_number(&self, owner: Option<Nid>) -> FsResult<Nid> {
        loop {
            let next = self.numbers.borrow_mut().pop_free();
            if let Some(nid) = next {
                let version = self.nat_entry(nid).await?.version;
                self.numbers.borrow_mut().take(nid, version, owner.unwrap_or(nid));
                return Ok(nid);
            }
            let block = self.numbers.borrow().search_at();
            let page = self.meta_block(self.nat_block(block)).await?;
            self.numbers.borrow_mut().search(block, &page, &self.layout)?;
        }
    }
}
