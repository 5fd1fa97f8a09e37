/** Programs of others in test/tools, which has its own package: `npm ci --prefix test/tools` installs them. */
import { existsSync } from 'node:fs';
import path from 'node:path';

const folder = path.resolve(import.meta.dirname, '../tools');

/** Path of a file of a package in test/tools. */
export const toolPath = (file: string): string => path.join(folder, 'node_modules', file);

/** False if the packages are installed, otherwise the reason for `{ skip }`; throws in CI. */
export function noTestTools(): string | false {
  if (existsSync(path.join(folder, 'node_modules'))) return false;
  const reason = 'the packages of test/tools are not installed; npm ci --prefix test/tools installs them';
  if (process.env.CI) throw new Error(`${reason}, and CI skips nothing`);
  return reason;
}
