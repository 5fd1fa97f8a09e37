/**
 * Baseline of the row "upload": plain node:http that pipes the body of a PUT into a new file and responds once it is synced, without
 * hashes, records or checks.
 *
 * node bench/floor-upload.ts PORT FOLDER
 */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

const [port, folder] = process.argv.slice(2);

http
  .createServer(async (request, response) => {
    const file = createWriteStream(path.join(folder!, randomBytes(12).toString('hex')), { flags: 'wx', flush: true });
    await pipeline(request, file);
    response.end();
  })
  .listen(Number(port), '127.0.0.1');
