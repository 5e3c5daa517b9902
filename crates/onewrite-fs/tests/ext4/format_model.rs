//! The format's functions that change structures, against simple models; and its readers, against random bytes.

use onewrite_block::{Choices, MIB};
use onewrite_fs::ext4::format::attribute::{self, Attributes};
use onewrite_fs::ext4::format::directory::{Entries, block, htree};
use onewrite_fs::ext4::format::extent::{self, Extent, Index, Node, NodeMut};
use onewrite_fs::ext4::format::{Inode, InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::{BlockNo, FileKind};

const PLACE: Place = Place::Block(BlockNo(7));
const DOTS: block::Dots = block::Dots { own: InodeNo(12), parent: InodeNo(2) };

/// The layout of a new file system of 32 MiB.
fn layout() -> Layout {
    let blocks = plan(&MkfsOptions::new(32 * MIB, &mut Choices::new(1))).expect("plan");
    let bytes = blocks[0].1.bytes();
    Layout::decode(RawSuperblock::in_first_block(&bytes[..]).expect("superblock")).expect("layout")
}

fn extents(node: &Node<'_>) -> Vec<Extent> {
    node.extents().collect()
}

#[test]
fn a_leaf_agrees_with_a_vector() {
    let mut choices = Choices::new(3);
    let mut bytes = [0; 4096];
    let mut node = NodeMut::init(&mut bytes, 0);
    let mut model: Vec<Extent> = Vec::new();
    for step in 0..20_000_u32 {
        let extent = Extent {
            logical: step,
            physical: BlockNo(choices.below(1 << 48)),
            length: 1 + choices.below(32_767) as u32,
            unwritten: choices.chance(1, 2),
        };
        let index = choices.index(model.len() + 1);
        match choices.index(5) {
            0..3 => {
                let has_room = model.len() < 340;
                assert_eq!(node.insert_extent(index, extent), has_room);
                if has_room {
                    model.insert(index, extent);
                }
            }
            3 if index < model.len() => {
                node.remove(index);
                model.remove(index);
            }
            4 if index < model.len() => {
                node.set_extent(index, extent);
                model[index] = extent;
            }
            _ => {}
        }
        if step.is_multiple_of(500) {
            let mut right = [0xff; 4096];
            let moved = extents(&node.split_into(index, &mut right).node());
            assert_eq!(moved, model.split_off(index));
        }
        assert_eq!(node.node().len(), model.len());
    }
    assert_eq!(extents(&node.node()), model);
}

#[test]
fn a_root_grows_and_its_child_holds_what_it_held() {
    let layout = layout();
    let mut root = [0; 60];
    let mut child = [0xff; 4096];
    let mut node = NodeMut::init(&mut root, 0);
    for index in 0..4 {
        let (logical, physical) = (10 + index * 10, BlockNo(1_000 + u64::from(index) * 20));
        let extent = Extent { logical, physical, length: 5, unwritten: false };
        assert!(node.insert_extent(index as usize, extent));
    }
    assert!(!node.insert_extent(4, Extent { logical: 99, physical: BlockNo(99), length: 1, unwritten: false }));
    let before = extents(&node.node());
    assert_eq!(extents(&node.grow(BlockNo(77), &mut child).node()), before);
    assert_eq!((node.node().depth(), node.node().len()), (1, 1));
    assert_eq!(node.node().child(u32::MAX), Some(Index { logical: 10, node: BlockNo(77) }));
    assert_eq!(node.node().child(9), None);
    extent::set_checksum(&mut child, 5, &layout);
    extent::verify_checksum(&child, 5, &layout, PLACE).expect("checksum");
    assert!(extent::verify_checksum(&child, 6, &layout, PLACE).is_err());
    let child = Node::parse(&child, PLACE).expect("child");
    child.check_entries(&layout, PLACE).expect("entries");
    assert_eq!(child.find(14).map(|extent| extent.physical_of(14)), Some(BlockNo(1_004)));
    assert_eq!((child.find(9), child.find(15), child.position(20)), (None, None, 2));
}

#[test]
fn a_directory_block_agrees_with_a_list() {
    let (layout, mut choices) = (layout(), Choices::new(4));
    for length in [1, 8, 40, 255] {
        let mut bytes = [0xff; 4096];
        block::init_first(&mut bytes, DOTS, &layout);
        let mut model: Vec<(Vec<u8>, InodeNo)> = Vec::new();
        for step in 0..5_000_u32 {
            let name: Vec<u8> = (0..1 + choices.index(length)).map(|_| b'a' + choices.below(26) as u8).collect();
            let known = model.iter().position(|(known, _)| *known == name);
            match (known, choices.chance(2, 3)) {
                (None, true) => {
                    let inserted = block::insert(&mut bytes, &name, InodeNo(step + 20), Some(FileKind::Regular), PLACE);
                    if inserted.expect("sound").is_some() {
                        model.push((name, InodeNo(step + 20)));
                    }
                }
                (Some(at), _) => {
                    let found = block::find(&bytes, &name, PLACE).expect("sound").expect("there");
                    assert_eq!(found.inode, model[at].1);
                    let offset = found.offset;
                    block::remove(&mut bytes, offset, PLACE).expect("sound");
                    model.swap_remove(at);
                }
                (None, false) => assert_eq!(block::find(&bytes, &name, PLACE), Ok(None)),
            }
        }
        block::set_checksum(&mut bytes, 9, &layout);
        block::verify_checksum(&bytes, 9, &layout, PLACE).expect("checksum");
        let mut names: Vec<(Vec<u8>, InodeNo)> = Entries::new(&bytes, PLACE)
            .map(|entry| entry.expect("sound"))
            .filter(|entry| entry.is_used() && !entry.name.starts_with(b"."))
            .map(|entry| (entry.name.to_vec(), entry.inode))
            .collect();
        names.sort();
        model.sort();
        assert_eq!(names, model);
    }
}

#[test]
fn an_empty_block_takes_as_many_names_as_fit() {
    let layout = layout();
    let mut bytes = [0xff; 4096];
    block::init(&mut bytes, &layout);
    let insert = |bytes: &mut [u8], number: u32| {
        block::insert(bytes, format!("{number:04}").as_bytes(), InodeNo(number), None, PLACE).expect("sound").is_some()
    };
    let count = (1..).take_while(|&number| insert(&mut bytes, number)).count();
    assert_eq!(count, (4096 - 12) / 12);
}

#[test]
fn an_index_agrees_with_a_list() {
    let (layout, mut choices) = (layout(), Choices::new(5));
    let (mut bytes, mut child, mut right) = ([0; 4096], [0xff; 4096], [0xff; 4096]);
    let mut root = htree::IndexMut::init_root(&mut bytes, DOTS, 1, 1, &layout);
    let mut model = vec![htree::Pair { hash: 0, block: 1 }];
    for block in 2.. {
        let hash = choices.bits() as u32 | 2;
        let at = root.index().position(hash) + 1;
        assert_eq!(at, model.partition_point(|pair| pair.hash <= hash));
        if !root.insert(at, htree::Pair { hash, block }) {
            break;
        }
        model.insert(at, htree::Pair { hash, block });
    }
    assert_eq!(model.len(), (4096 - 32 - 8) / 8);
    root.set_checksum(3, &layout);
    root.index().verify_checksum(3, &layout, PLACE).expect("checksum");
    let mut inner = root.grow(600, &mut child, &layout);
    assert_eq!((root.index().len(), root.index().pair(0).block), (1, 600));
    let (hash, other) = inner.split_into(200, &mut right, &layout);
    assert_eq!(hash, model[200].hash);
    let pairs: Vec<_> = inner.index().pairs().chain(other.index().pairs().skip(1)).collect();
    assert_eq!(pairs[..200], model[..200]);
    assert_eq!((other.index().pair(0).block, &pairs[200..]), (model[200].block, &model[201..]));
    assert_eq!(htree::root_info(&bytes, PLACE).map(|info| info.levels), Ok(1));
    htree::Index::root(&bytes, &layout, PLACE).expect("root");
    htree::Index::node(&child, &layout, PLACE).expect("node");
}

/// Runs every reader on a block with any content.
fn read_all(bytes: &[u8], layout: &Layout) -> usize {
    let mut read = Entries::new(bytes, PLACE).flatten().count();
    for part in [&bytes[..60], bytes] {
        if let Ok(node) = Node::parse(part, PLACE) {
            let _ = node.check_entries(layout, PLACE);
            read += node.extents().count() + node.indexes().count() + node.position(1 << 20);
            let _ = if node.depth() == 0 { node.find(5).map(|_| ()) } else { node.child(5).map(|_| ()) };
        }
    }
    for index in
        [htree::Index::root(bytes, layout, PLACE), htree::Index::node(bytes, layout, PLACE)].into_iter().flatten()
    {
        read += index.pairs().count() + index.position(1 << 20);
        let _ = index.verify_checksum(1, layout, PLACE);
    }
    let _ = (htree::root_info(bytes, PLACE), block::find(bytes, b"name", PLACE), attribute::header(bytes, PLACE));
    let _ = (extent::verify_checksum(bytes, 1, layout, PLACE), block::verify_checksum(bytes, 1, layout, PLACE));
    let _ = (Inode::decode(bytes, InodeNo(5), layout), RawGroupDescriptor::read(bytes, 0, layout));
    read += Attributes::in_block(bytes, PLACE).map_or(0, |list| list.flatten().count());
    let _ = Attributes::in_inode(&bytes[128..256], PLACE).check();
    if let Ok(raw) = RawSuperblock::in_first_block(bytes) {
        let _ = Layout::decode(raw);
    }
    read
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let (layout, mut choices) = (layout(), Choices::new(6));
    let mut sound: Vec<Vec<u8>> = (0..4).map(|_| vec![0; 4096]).collect();
    sound.push(plan(&MkfsOptions::new(32 * MIB, &mut choices)).expect("plan")[0].1.bytes().to_vec());
    block::init_first(&mut sound[0], DOTS, &layout);
    let _ = NodeMut::init(&mut sound[1], 0);
    let _ = htree::IndexMut::init_root(&mut sound[2], DOTS, 1, 1, &layout);
    let _ = htree::IndexMut::init_node(&mut sound[3], 1, &layout);
    let mut read = 0;
    for _ in 0..30_000 {
        let mut bytes = sound[choices.index(sound.len())].clone();
        for _ in 0..=choices.index(8) {
            let start = [0, 0, 1024][choices.index(3)];
            bytes[start + choices.index(64)] = [0, 1, 0xff, choices.bits() as u8][choices.index(4)];
        }
        read += read_all(&bytes, &layout);
    }
    assert!(read > 30_000, "{read}");
}
