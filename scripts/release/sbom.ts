/**
 * Software bills of materials in CycloneDX 1.5: the npm packages of the service and of the portal's build, Node, and Debian's packages.
 * `npm sbom --omit=dev` is not used: it omits packages that development dependencies need as well.
 */
import { createHash } from 'node:crypto';
import { manifest } from './app.ts';
import type { DebianPackage } from './image.ts';
import { lock, nameOf, portalPackages, resolve, servicePackages } from './lock.ts';
import { nodeVersion } from './node.ts';

const purlOf = (folder: string): string =>
  `pkg:npm/${nameOf(folder).replace('@', '%40')}@${lock.packages[folder]!.version}`;

/** Returns an npm package as a component. Its identity is its path, because a version can be installed twice. */
function npmComponent(folder: string): object {
  const { version, license, integrity } = lock.packages[folder]!;
  const [, sha512] = /^sha512-(.+)$/.exec(integrity ?? '') ?? [];
  return {
    'bom-ref': folder,
    type: 'library',
    name: nameOf(folder),
    version,
    purl: purlOf(folder),
    ...(license && { licenses: [/ (OR|AND) /.test(license) ? { expression: license } : { license: { id: license } }] }),
    ...(sha512 && { hashes: [{ alg: 'SHA-512', content: Buffer.from(sha512, 'base64').toString('hex') }] }),
  };
}

function debianComponent({ name, version }: DebianPackage, architecture: string): object {
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-12`;
  return { 'bom-ref': purl, type: 'library', name, version, purl };
}

/** Returns a bill as JSON. Its serial number derives from its content, so that two builds have the same bytes. */
export function sbom(
  epoch: number,
  image: { packages: readonly DebianPackage[]; architecture: string } = { packages: [], architecture: '' },
): string {
  const folders = [...new Set([...servicePackages(), ...portalPackages()])].sort();
  const { name, version, description, license } = manifest;
  const purl = `pkg:generic/nodejs@${nodeVersion}`;
  const licenses = [{ license: { id: 'MIT' } }];
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    serialNumber: '',
    version: 1,
    metadata: {
      timestamp: new Date(epoch * 1000).toISOString(),
      component: {
        'bom-ref': name,
        type: 'application',
        name,
        version,
        description,
        purl: `pkg:npm/${name}@${version}`,
        licenses: [{ license: { id: license } }],
      },
    },
    components: [
      { 'bom-ref': purl, type: 'platform', name: 'nodejs', version: nodeVersion, purl, licenses },
      ...folders.map(npmComponent),
      ...image.packages.map((one) => debianComponent(one, image.architecture)),
    ],
    dependencies: [
      { ref: name, dependsOn: Object.keys(manifest.dependencies).map((one) => `node_modules/${one}`) },
      ...folders.map((folder) => {
        const needed = Object.keys(lock.packages[folder]!.dependencies ?? {}).map((one) => resolve(folder, one));
        return { ref: folder, dependsOn: needed.filter((one) => one !== undefined && folders.includes(one)) };
      }),
    ],
  };
  const hex = createHash('sha256').update(JSON.stringify(bill)).digest('hex');
  // The form of a UUID of version 8, which leaves the bits to the application (RFC 9562 §5.8).
  const uuid = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)];
  bill.serialNumber = `urn:uuid:${uuid.join('-')}`;
  return `${JSON.stringify(bill, null, 2)}\n`;
}
