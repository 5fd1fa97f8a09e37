/** The doctor's report of a serving process, at most half a minute old. */
import { Unavailable } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import {
  type Check,
  cacheSuccessfulChecks,
  checkSecretKey,
  type Diagnosis,
  examine,
  readFacts,
  type Subject,
} from '../doctor/doctor.ts';
import { secretKeyProblem } from '../storage/secret-key.ts';
import { probeBlobStore } from './blob-store.ts';
import { checkCertificates } from './certificates.ts';
import type { Parts } from './parts.ts';

const KEPT_MS = 30_000;

/** For a serving process, whose database is up to date. */
export function createDoctor({ config, directory, database, blobs, clock }: Parts): () => Promise<Diagnosis> {
  const checkDatabase: Subject['database'] = async () => {
    const name = 'database';
    try {
      const facts = await readFacts(database, config);
      const checks: Check[] = [
        { name, status: 'ok', message: 'up to date' },
        { name: 'service', status: 'ok', message: `serving as process ${process.pid}` },
        // If the key was removed while the service runs, the next start would fail.
        checkSecretKey(await secretKeyProblem({ directory, database, configured: config.secretKey })),
        ...(await checkCertificates(config, database, clock.now())),
      ];
      return { checks, facts };
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const remedy = 'Check the database and the log of the service.';
      return { checks: [{ name, status: 'fail', message: error.message, remedy }], facts: undefined };
    }
  };
  const subject: Subject = {
    config,
    clock,
    database: checkDatabase,
    probeBlobs: () => probeBlobStore(blobs),
    network: config.doctorNetwork === 'on',
    answered: cacheSuccessfulChecks(clock),
  };
  const cache = createFreshCache<null, Diagnosis>({
    clock,
    maxAgeMs: KEPT_MS,
    limit: 1,
    absentLimit: 0,
    read: () => examine(subject),
  });
  return async () => (await cache.get('', null))!;
}
