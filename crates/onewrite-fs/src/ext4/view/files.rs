//! Inodes of a view and their content.

use onewrite_block::{PAGE_SIZE, Page};

use super::ImageView;
use super::run::Run;
use crate::api::{Attributes, FileKind, FsError, FsResult, Ino, SeekTarget};
use crate::block::{BlockNo, BlockRange};
use crate::content::Data;
use crate::ext4::format::attribute::Attributes as StoredAttributes;
use crate::ext4::format::features::{Incompat, RoCompat};
use crate::ext4::format::inode::{attribute_area, flags};
use crate::ext4::format::{Inode, InodeNo, Place, ROOT_INODE, RawGroupDescriptor};
use crate::ext4::inodes::device_number;

const PAGE: u64 = PAGE_SIZE as u64;

/// Prefix and name of the attribute that holds inline data beyond the inode's 60 bytes.
pub(super) const INLINE_REST: (u8, &[u8]) = (7, b"data");

/// An inode, with the bytes of its slot.
pub(super) struct File {
    pub(super) number: InodeNo,
    pub(super) inode: Inode,
    pub(super) slot: Vec<u8>,
    pub(super) kind: FileKind,
    /// Bytes of content, limited to what can exist.
    pub(super) size: u64,
}

impl File {
    pub(super) fn is_inline(&self) -> bool {
        self.inode.has(flags::INLINE_DATA)
    }

    /// # Errors
    /// If its content is encrypted.
    pub(super) fn expect_plain(&self) -> FsResult<()> {
        match self.inode.has(flags::ENCRYPT) {
            true => {
                Err(FsError::Unsupported(format!("inode {} is encrypted; read it with Linux and its key", self.number)))
            }
            false => Ok(()),
        }
    }

    pub(super) fn expect_directory(&self) -> FsResult<()> {
        match self.kind {
            FileKind::Directory => Ok(()),
            _ => Err(FsError::NotDirectory(format!("inode {}", self.number))),
        }
    }

    fn expect_regular(&self) -> FsResult<()> {
        let ino = format!("inode {}", self.number);
        match self.kind {
            FileKind::Regular => self.expect_plain(),
            FileKind::Directory => Err(FsError::IsDirectory(ino)),
            _ => Err(FsError::Invalid(format!("{ino} is no file"))),
        }
    }

    fn damaged<T>(&self, problem: impl Into<String>) -> FsResult<T> {
        Err(FsError::Damaged { place: format!("inode {}", self.number), problem: problem.into() })
    }
}

impl ImageView {
    pub(super) fn block_size(&self) -> u64 {
        self.blocks.block_size() as u64
    }

    /// Reads an inode that a directory entry may name.
    pub(super) async fn file(&self, ino: Ino) -> FsResult<File> {
        let number = InodeNo::from_ino(ino);
        if number != ROOT_INODE && self.layout.is_reserved(number) && !self.options.is_rescue && number.is_some() {
            let problem = "a name must not lead to a reserved inode".into();
            return Err(FsError::Damaged { place: format!("inode {number}"), problem });
        }
        self.any_file(number).await
    }

    /// Reads any inode, also one of the file system itself.
    pub(super) async fn any_file(&self, number: InodeNo) -> FsResult<File> {
        if !self.layout.contains_inode(number) {
            return Err(FsError::NotFound(format!("inode {number}")));
        }
        if number == ROOT_INODE && self.made_up_root.is_some() {
            return Ok(self.made_up_file());
        }
        let position = self.layout.position_of_inode(number);
        let table = self.descriptor(position.group).await?.inode_table();
        let block = self.blocks.block(table.saturating_add(position.table_block.into())).await?;
        let slot = block[position.offset..][..usize::from(self.layout.inode_size)].to_vec();
        let inode = match self.options.is_rescue {
            false => Inode::decode(&slot, number, &self.layout)?,
            true => Inode::decode_unverified(&slot, number, &self.layout)?,
        };
        if number == ROOT_INODE && (inode.mode == 0 || inode.links == 0) {
            let problem = "the root directory is missing; `--rescue` shows what else is there".into();
            return Err(FsError::Damaged { place: format!("inode {number}"), problem });
        }
        if inode.mode == 0 || inode.links == 0 {
            return Err(FsError::NotFound(format!("inode {number} (it is free)")));
        }
        let Some(kind) = inode.kind() else {
            let problem = format!("its mode {:#o} names no kind of file", inode.mode);
            return Err(FsError::Damaged { place: format!("inode {number}"), problem });
        };
        let mut file = File { number, size: inode.size, inode, slot, kind };
        self.correct_size(&mut file)?;
        Ok(file)
    }

    fn correct_size(&self, file: &mut File) -> FsResult<()> {
        if file.kind == FileKind::Directory && !self.layout.features.incompat.contains(Incompat::LARGEDIR) {
            // The upper half of the field once had another meaning.
            file.size &= 0xffff_ffff;
        }
        let has_content = matches!(file.kind, FileKind::Regular | FileKind::Directory);
        let size_max = self.mappable_blocks(file).saturating_mul(self.block_size());
        if !has_content || file.size <= size_max {
            return Ok(());
        }
        if !self.options.is_rescue {
            return file.damaged(format!("it says {} bytes, its map can hold {size_max}", file.size));
        }
        self.lose(format!("inode {}: it says {} bytes, which no map can hold", file.number, file.size));
        file.size = size_max.min(self.layout.block_count.saturating_mul(self.block_size()));
        Ok(())
    }

    /// The descriptor of `group`. In a rescue, a sound backup replaces a damaged descriptor.
    pub(super) async fn descriptor(&self, group: u32) -> FsResult<RawGroupDescriptor> {
        let (block, offset) = self.layout.position_of_descriptor(group);
        let primary = self.descriptor_at(group, block, offset).await;
        let primary = match primary {
            Err(error) if !self.options.is_rescue => return Err(error),
            Ok((descriptor, Ok(()))) => return Ok(descriptor),
            Ok((_, Err(error))) if !self.options.is_rescue => return Err(error),
            other => other,
        };
        self.lose(format!("group {group}: its descriptor is damaged; a backup is used if there is one"));
        for (block, offset) in self.layout.backups_of_descriptor(group) {
            if let Ok((descriptor, Ok(()))) = self.descriptor_at(group, block, offset).await {
                return Ok(descriptor);
            }
        }
        primary.map(|(descriptor, _)| descriptor)
    }

    /// One copy of a descriptor, and its problem if it has one.
    async fn descriptor_at(
        &self,
        group: u32,
        block: BlockNo,
        offset: usize,
    ) -> FsResult<(RawGroupDescriptor, FsResult<()>)> {
        let bytes = self.blocks.block(block).await?;
        let descriptor = RawGroupDescriptor::read(&bytes[offset..], group, &self.layout)?;
        let table = descriptor.inode_table();
        let blocks = table.run(self.layout.inode_table_blocks().into());
        let sound = match descriptor.verify_checksum(group, &self.layout) {
            Err(error) => Err(error.into()),
            Ok(()) if !self.layout.contains_block(table) || table.is_none() || !blocks.ends_by(self.layout.end()) => {
                let problem = format!("its inode table at block {table} lies beyond the image");
                Err(FsError::Damaged { place: format!("descriptor of group {group}"), problem })
            }
            Ok(()) => Ok(()),
        };
        Ok((descriptor, sound))
    }

    pub(super) fn attributes_of(&self, file: &File) -> Attributes {
        let inode = &file.inode;
        // Content inside the inode counts as sectors, or programs would take the file for a hole.
        let is_counted = file.is_inline() && file.kind == FileKind::Regular;
        let inline_sectors = if is_counted { file.size.div_ceil(512) } else { 0 };
        Attributes {
            ino: file.number.into(),
            kind: file.kind,
            permissions: inode.mode & 0o7777,
            links: u32::from(inode.links),
            uid: inode.uid,
            gid: inode.gid,
            size: file.size,
            sectors: inode.sectors + inline_sectors,
            accessed: inode.atime,
            modified: inode.mtime,
            changed: inode.ctime,
            created: inode.created(),
            device: device_number(file.kind, &inode.block),
            generation: inode.generation,
        }
    }

    /// The content of a regular file in a range, by pages.
    pub(super) async fn read_file(&self, file: &File, offset: u64, length: u64) -> FsResult<Data> {
        file.expect_regular()?;
        let end = file.size.min(offset.saturating_add(length));
        if offset >= end {
            return Ok(Data::default());
        }
        let start = offset / PAGE * PAGE;
        let bytes = self.content(file, start, end).await?;
        let page =
            |bytes: &[u8]| if bytes.iter().all(|&byte| byte == 0) { Page::ZEROS } else { Page::from_slice(bytes) };
        let pages = bytes.chunks(PAGE_SIZE).map(page).collect();
        Ok(Data { pages, skip: (offset - start) as usize, length: (end - offset) as usize })
    }

    /// The bytes of `file` from `start` to `end`, at most its size. A rescue reads zeros for unreadable parts and notes
    /// the losses.
    pub(super) async fn content(&self, file: &File, start: u64, end: u64) -> FsResult<Vec<u8>> {
        if file.is_inline() {
            let mut all = self.inline_content(file)?;
            all.resize(end as usize, 0);
            return Ok(all.split_off(start as usize));
        }
        let size = self.block_size();
        let mut bytes = Vec::with_capacity((end - start) as usize);
        let mut at = start;
        while at < end {
            let logical = at / size;
            let run = match self.map(file, logical).await {
                Err(error) if self.is_lost(&error, || format!("{}: where it lies", part(file, at, end))) => {
                    Run::Zeros { count: u64::MAX - logical }
                }
                other => other?,
            };
            let run_end = logical.saturating_add(run.count()).saturating_mul(size).min(end);
            match run {
                Run::Zeros { .. } => bytes.resize((run_end - start) as usize, 0),
                Run::Data { block, .. } => {
                    let count = run_end.div_ceil(size) - logical;
                    let read = self.read_run(file, logical, block.run(count)).await?;
                    bytes.extend_from_slice(&read[(at - logical * size) as usize..(run_end - logical * size) as usize]);
                }
            }
            at = run_end;
        }
        Ok(bytes)
    }

    async fn read_run(&self, file: &File, logical: u64, blocks: BlockRange) -> FsResult<Vec<u8>> {
        let whole = self.blocks.run(blocks).await;
        if whole.is_ok() || !self.options.is_rescue {
            return whole;
        }
        let mut bytes = Vec::new();
        for (logical, block) in (logical..).zip(blocks.blocks()) {
            let at = logical * self.block_size();
            match self.blocks.run(block.alone()).await {
                Err(error) if self.is_lost(&error, || part(file, at, at + self.block_size())) => {
                    bytes.resize(bytes.len() + self.blocks.block_size(), 0);
                }
                other => bytes.extend(other?),
            }
        }
        Ok(bytes)
    }

    /// All content of a file inside its inode: 60 bytes, then the attribute [`INLINE_REST`].
    pub(super) fn inline_content(&self, file: &File) -> FsResult<Vec<u8>> {
        let mut bytes = file.inode.block.to_vec();
        for attribute in self.attributes_in_inode(file) {
            let attribute = attribute?;
            if (attribute.name_index, attribute.name) == INLINE_REST {
                bytes.extend_from_slice(attribute.value);
            }
        }
        match usize::try_from(file.size) {
            Ok(size) if size <= bytes.len() => bytes.truncate(size),
            _ if self.options.is_rescue => {
                self.lose(format!("{}: only {} bytes lie in it", part(file, 0, file.size), bytes.len()));
            }
            _ => return file.damaged(format!("it says {} bytes, {} lie in it", file.size, bytes.len())),
        }
        Ok(bytes)
    }

    pub(super) fn attributes_in_inode<'a>(&self, file: &'a File) -> StoredAttributes<'a> {
        let area = attribute_area(&file.slot, &file.inode);
        self.with_value_inodes(StoredAttributes::in_inode(area, Place::Inode(file.number)))
    }

    pub(super) fn with_value_inodes<'a>(&self, attributes: StoredAttributes<'a>) -> StoredAttributes<'a> {
        match self.layout.features.incompat.contains(Incompat::EA_INODE) {
            true => attributes.with_value_inodes(),
            false => attributes,
        }
    }

    /// The content of a symbolic link: in the inode if it is short, else in a block.
    pub(super) async fn link_target(&self, file: &File) -> FsResult<Vec<u8>> {
        if file.kind != FileKind::Symlink {
            return Err(FsError::Invalid(format!("inode {} is no symbolic link", file.number)));
        }
        file.expect_plain()?;
        if file.size > self.block_size() {
            return file.damaged(format!("a link of {} bytes, longer than a block", file.size));
        }
        let has_no_block = !file.inode.has(flags::EXTENTS) || file.inode.sectors == 0;
        let is_fast = has_no_block && !file.is_inline() && file.size < file.inode.block.len() as u64;
        if is_fast {
            return Ok(file.inode.block[..file.size as usize].to_vec());
        }
        if !file.is_inline() && file.size > 0 && matches!(self.map(file, 0).await?, Run::Zeros { .. }) {
            return file.damaged("the link's target is a hole");
        }
        self.content(file, 0, file.size).await
    }

    /// Offset of the next data or hole at or after `offset`.
    pub(super) async fn seek_in(&self, file: &File, offset: u64, target: SeekTarget) -> FsResult<u64> {
        file.expect_regular()?;
        let (mut at, mut steps) = (offset, 0);
        while at < file.size {
            let logical = at / self.block_size();
            let (is_data, count) = match file.is_inline() {
                true => (true, u64::MAX),
                false => match self.map(file, logical).await {
                    Err(error) if self.is_lost(&error, || part(file, at, file.size)) => (false, u64::MAX),
                    run => run.map(|run| (matches!(run, Run::Data { .. }), run.count()))?,
                },
            };
            if is_data == (target == SeekTarget::Data) {
                return Ok(at);
            }
            steps += 1;
            if steps > 2 * self.layout.block_count + 2 {
                return file.damaged("its map has more pieces than the image has blocks");
            }
            at = logical.saturating_add(count).saturating_mul(self.block_size());
        }
        match target {
            SeekTarget::Hole if offset < file.size => Ok(file.size),
            _ => Err(FsError::BeyondEnd(format!("inode {} from byte {offset} on", file.number))),
        }
    }

    /// Unit of the groups' counts, in blocks: the blocks of a cluster, or 1.
    pub(super) fn counted_blocks(&self) -> u64 {
        match self.layout.features.ro_compat.contains(RoCompat::BIGALLOC) {
            true => self.layout.cluster_blocks.into(),
            false => 1,
        }
    }
}

/// A byte range of a file, in words.
fn part(file: &File, start: u64, end: u64) -> String {
    format!("inode {}, bytes {start} to {}", file.number, end.min(file.size))
}
