/**
 * Writes the generated documents: docs/reference/errors.md and the portal's messages from the error catalogue, docs/reference/settings.md
 * from the table of settings, docs/openapi.json from the routes, from that the types of the client in clients/typescript, and the styles
 * that the portal loads. With `--check` it writes nothing and fails if a file differs from the code.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { clientSchema } from './client-schema.ts';
import { apiDocument, configDocument, errorCodesModule, errorsDocument, openapiDocument } from './documents.ts';
import { portalStyles } from './portal-styles.ts';

const root = path.dirname(import.meta.dirname);
const check = process.argv.includes('--check');

const styles = portalStyles();
const openapi = await openapiDocument();
const documents: Record<string, string> = {
  'docs/reference/errors.md': errorsDocument(),
  'docs/reference/settings.md': configDocument(),
  'docs/reference/api.md': apiDocument(openapi),
  'docs/openapi.json': openapi,
  'portal/src/texts/error-codes.ts': errorCodesModule(),
  'clients/typescript/src/schema.ts': await clientSchema(openapi),
  'portal/src/mantine.css': styles.first,
  'portal/src/mantine-pages.css': styles.pages,
};

let stale = 0;
for (const [name, wanted] of Object.entries(documents)) {
  const file = path.join(root, name);
  let found: string | undefined;
  try {
    found = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  if (found === wanted) continue;
  if (check) {
    stale += 1;
    console.error(`${name} is not what the code says; run: npm run docs`);
  } else {
    writeFileSync(file, wanted);
    console.log(`wrote ${name}`);
  }
}
process.exitCode = stale === 0 ? 0 : 1;
