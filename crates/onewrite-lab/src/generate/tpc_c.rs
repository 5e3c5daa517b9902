//! TPC-C: how a database with 50 warehouses reads and writes its files, as InnoDB does.
//!
//! Pages of 16 KiB are *units* of four pages. The tables lie one after the other in the range, and transactions touch
//! their units. The mix is new order (45%: a customer, ten rows of stock, order lines at the end of the district's),
//! payment (43%: warehouse, customer, history), order status, delivery and stock level. `NURand` draws customers and
//! items, as in the benchmark. A buffer pool, an LRU of units, stands before the files. Only its reads and evictions
//! reach them:
//! - dirty units leave in batches: first one after the other to the doublewrite area, then each to its place, in order;
//! - a commit appends to the redo log, writes the last page again until it is full, and goes around.
//!
//! While reads lag behind, transactions that read are chosen, else those that write. The pool begins with what was read
//! before the trace. Source of the mix and of `NURand`: TPC-C, revision 5.11, §2.1.6 and §5.2.3; of the sizes of the
//! tables: §1.2.1.

use onewrite_block::Choices;
use onewrite_cache::{CacheShape, PageRequest, PolicyKind, Replay};

use super::tally::{Tally, Targets};

const WAREHOUSES: u64 = 50;
/// Pages of a unit.
const UNIT: u64 = 4;
/// Units written to the doublewrite area at a time.
const BATCH: usize = 64;
/// The redo log has one 150th of the range; the buffer pool has one 120th of the tables.
const LOG_SHARE: u64 = 150;
const POOL_SHARE: u64 = 120;
/// Commits whose rows fill one page of the redo log.
const COMMITS_PER_LOG_PAGE: u64 = 2;

/// Where a table lies, in thousandths of the tables' units.
#[derive(Clone, Copy)]
struct Table(u64, u64);

const WAREHOUSE: Table = Table(0, 1);
const ITEM: Table = Table(2, 7);
const STOCK: Table = Table(10, 350);
const CUSTOMER: Table = Table(380, 240);
const ORDERS: Table = Table(640, 60);
const ORDER_LINE: Table = Table(720, 200);
const HISTORY: Table = Table(940, 60);

struct Database {
    tally: Tally,
    choices: Choices,
    /// Pages of the redo log, which lies first; then come the doublewrite area and the tables.
    log_pages: u64,
    tables: u64,
    units: u64,
    pool: Box<dyn Replay>,
    dirty: Vec<u64>,
    commits: u64,
    /// Rows appended so far to the tables that grow.
    appended: u64,
}

pub(super) fn generate(targets: Targets, choices: Choices) -> Vec<PageRequest> {
    let log_pages = targets.range / LOG_SHARE;
    let tables = (log_pages + UNIT * BATCH as u64).next_multiple_of(UNIT).min(targets.range / 2);
    let units = (targets.range - tables) / UNIT;
    let shape = CacheShape::new((units / POOL_SHARE).max(16), 1).expect("a pool is smaller than its tables");
    let pool = PolicyKind::Lru.simulation(shape, None);
    let mut database = Database {
        tally: Tally::new(targets),
        choices,
        log_pages,
        tables,
        units,
        pool,
        dirty: Vec::new(),
        commits: 0,
        appended: 0,
    };
    while !database.tally.is_complete() {
        database.transaction();
    }
    database.tally.requests
}

impl Database {
    fn transaction(&mut self) {
        let warehouse = self.choices.below(WAREHOUSES);
        match (self.tally.wants_reads(), self.choices.below(100)) {
            (true, 0..50) => self.stock_level(warehouse),
            (true, _) => self.order_status(warehouse),
            (false, 0..48) => self.new_order(warehouse),
            (false, 48..95) => self.payment(warehouse),
            (false, _) => self.delivery(warehouse),
        }
    }

    /// The unit at `place` (0 to 1) of a table.
    fn unit(&self, Table(start, length): Table, place: f64) -> u64 {
        let (first, count) = (self.units * start / 1000, (self.units * length / 1000).max(1));
        first + ((count as f64 * place) as u64).min(count - 1)
    }

    /// The unit of a row in a warehouse's part of a table.
    fn row(&self, table: Table, warehouse: u64, place: f64) -> u64 {
        self.unit(table, (warehouse as f64 + place) / WAREHOUSES as f64)
    }

    /// The benchmark's `NURand(a, 0, count - 1)`, as a share of `count`.
    fn uneven(&mut self, a: u64, count: u64) -> f64 {
        let drawn = (self.choices.below(a + 1) | self.choices.below(count)) % count;
        drawn as f64 / count as f64
    }

    /// The unit of the next row at the end of a table that grows.
    fn end(&mut self, warehouse: u64, table: Table) -> u64 {
        self.appended += 1;
        let place = (self.appended % 100_000) as f64 / 100_000.0;
        self.row(table, warehouse, place)
    }

    fn new_order(&mut self, warehouse: u64) {
        let customer = self.uneven(1023, 3000);
        self.change(self.unit(WAREHOUSE, warehouse as f64 / WAREHOUSES as f64));
        self.read(self.row(CUSTOMER, warehouse, customer));
        for _ in 0..5 + self.choices.below(11) {
            let item = self.uneven(8191, 100_000);
            // One order line in a hundred comes from another warehouse.
            let from = if self.choices.chance(1, 100) { self.choices.below(WAREHOUSES) } else { warehouse };
            self.read(self.unit(ITEM, item));
            self.change(self.row(STOCK, from, item));
        }
        for table in [ORDERS, ORDER_LINE] {
            let unit = self.end(warehouse, table);
            self.change(unit);
        }
        self.commit();
    }

    fn payment(&mut self, warehouse: u64) {
        let customer = self.uneven(1023, 3000);
        self.change(self.unit(WAREHOUSE, warehouse as f64 / WAREHOUSES as f64));
        self.change(self.row(CUSTOMER, warehouse, customer));
        let unit = self.end(warehouse, HISTORY);
        self.change(unit);
        self.commit();
    }

    fn delivery(&mut self, warehouse: u64) {
        for _ in 0..10 {
            let customer = self.uneven(1023, 3000);
            let order = self.choices.fraction();
            for table in [ORDERS, ORDER_LINE] {
                self.change(self.row(table, warehouse, order));
            }
            self.change(self.row(CUSTOMER, warehouse, customer));
        }
        self.commit();
    }

    fn order_status(&mut self, warehouse: u64) {
        let (customer, order) = (self.uneven(1023, 3000), self.choices.fraction());
        for (table, place) in [(CUSTOMER, customer), (ORDERS, order), (ORDER_LINE, order)] {
            self.read(self.row(table, warehouse, place));
        }
    }

    fn stock_level(&mut self, warehouse: u64) {
        for _ in 0..20 {
            let item = self.uneven(8191, 100_000);
            self.read(self.row(STOCK, warehouse, item));
        }
    }

    fn read(&mut self, unit: u64) {
        self.request(&[PageRequest::read(unit)]);
    }

    fn change(&mut self, unit: u64) {
        self.request(&[PageRequest::read(unit), PageRequest::write(unit)]);
    }

    /// Uses units through the buffer pool.
    fn request(&mut self, requests: &[PageRequest]) {
        let (pool, tally, dirty, tables) = (&mut self.pool, &mut self.tally, &mut self.dirty, self.tables);
        pool.feed(requests, &mut |request| match request.is_write() {
            true => dirty.push(request.page()),
            false => pages(tables, request.page()).for_each(|page| tally.read(page)),
        });
        if self.dirty.len() >= BATCH {
            self.write_batch();
        }
    }

    fn write_batch(&mut self) {
        let area = self.log_pages..self.log_pages + UNIT * self.dirty.len() as u64;
        area.filter(|page| *page < self.tables).for_each(|page| self.tally.write(page));
        self.dirty.sort_unstable();
        for unit in std::mem::take(&mut self.dirty) {
            pages(self.tables, unit).for_each(|page| self.tally.write(page));
        }
    }

    fn commit(&mut self) {
        self.tally.write(self.commits / COMMITS_PER_LOG_PAGE % self.log_pages);
        self.commits += 1;
    }
}

/// The pages of a unit.
fn pages(tables: u64, unit: u64) -> std::ops::Range<u64> {
    let first = tables + unit * UNIT;
    first..first + UNIT
}
