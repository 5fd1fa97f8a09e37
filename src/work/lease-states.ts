/** What the column `leased` of a work row says: free, leased, or leased and marked as running (see rows.ts). */
export const FREE = 0;
export const HELD = 1;
export const RUNNING = 2;
