/**
 * Reads the examples of /openapi.json from docs/examples, where each tag of the API has a file. A member in PascalCase is the example of the
 * schema with that name. A member in camelCase is the example of an operation whose response is not JSON.
 *
 * All examples are about one order of one shop. Only ErasureRequest has another address: an erasure suppresses its address, so requests
 * that are generated from the other examples would be rejected.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { PROGRAM_FOLDER } from '../base/program-files.ts';

const FOLDER = path.join(PROGRAM_FOLDER, 'docs/examples');

/** Returns the examples by the name of their schema or operation. */
export function readExamples(): Record<string, unknown> {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
  return Object.assign({}, ...files.map((name) => JSON.parse(readFileSync(path.join(FOLDER, name), 'utf8'))));
}
