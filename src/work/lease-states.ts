/** What the column `leased` of a work row says: free, held, or held and being tried under the mark (see work.ts). */
export const FREE = 0;
export const HELD = 1;
export const TRIED = 2;
