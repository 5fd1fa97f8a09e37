/** What the doctor can tell of the store for blobs: whether it takes, gives back, lists and removes a probe. */
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { openBlobStore, probeBlobStore } from '../roles/blob-store.ts';
import { describeS3Location } from '../storage/blobs/s3-location.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import type { Check } from './doctor-local.ts';

/** Nothing for files in the data directory, which is looked at by itself. */
export async function checkBlobs(config: Config, clock: Clock): Promise<Check[]> {
  const name = 'blob storage';
  const { blobs: address } = config;
  if (address.kind === 'disk' && address.folder === undefined) return [];
  const where = address.kind === 'disk' ? `folder ${address.folder}` : describeS3Location(address.location);
  const directory = dataDirectory(config.dataDir, address.kind === 'disk' ? address.folder : undefined);
  const store = await openBlobStore(config, { directory, clock });
  try {
    await probeBlobStore(store.blobs);
    return [{ name, status: 'ok', message: `${where}: takes, gives back, lists and removes` }];
  } catch (error) {
    const remedy =
      address.kind === 'disk'
        ? 'Mount the folder and make it writable for the user of the service.'
        : 'Check POSTRIDER_BLOB_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of the key; see docs/s3.md.';
    return [{ name, status: 'fail', message: `${where}: ${(error as Error).message}`, remedy }];
  } finally {
    await store.stop();
  }
}
