/**
 * The container image, built without a container engine: C and C++ libraries, CA certificates, and time zones of Debian, Node, and the
 * application. It has no shell and no package manager. The archive is an OCI image layout that `docker load`, podman, and skopeo accept.
 * User, ports, entry point, and health check are those of deploy/Dockerfile.
 */
import { createHash } from 'node:crypto';
import { globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { manifest } from './app.ts';
import { copy, normalize, root, run, tar } from './files.ts';
import { type Architecture, nodeBinary } from './node.ts';

const SUITE = 'bookworm';
const MIRROR = 'http://deb.debian.org';
/** Node's libraries, and what they need. Everything else that apt adds is discarded. */
const PACKAGES = [
  'base-files',
  'ca-certificates',
  'gcc-12-base',
  'libatomic1',
  'libc6',
  'libgcc-s1',
  'libstdc++6',
  'netbase',
  'tzdata',
];
const UNUSED = ['usr/share/man', 'usr/share/locale', 'usr/share/lintian', 'usr/share/bug', 'var/cache'];
/** The user of distroless images, which the Helm chart sets too. */
const OWNER = 65_532;
/** Every user can write to a new volume, so that a container can run as any user; the first start as OWNER restricts it. */
const VOLUME_MODE = 0o1777;

export interface DebianPackage {
  name: string;
  version: string;
}

/** Unpacks the Debian packages into the folder, and lists them where scanners look for them. Returns their versions. */
function writeBase(folder: string, work: string, architecture: Architecture): DebianPackage[] {
  const downloads = path.join(work, `debian-${architecture}`);
  const sources = [
    `deb ${MIRROR}/debian ${SUITE} main`,
    `deb ${MIRROR}/debian ${SUITE}-updates main`,
    `deb ${MIRROR}/debian-security ${SUITE}-security main`,
  ];
  const options = ['--quiet', '--variant=extract', `--architectures=${architecture}`, '--format=dir', '--skip=cleanup'];
  run('mmdebstrap', [...options, `--include=${PACKAGES.join(',')}`, SUITE, downloads, ...sources], work);
  mkdirSync(path.join(folder, 'var/lib/dpkg/status.d'), { recursive: true });
  const found = globSync('var/cache/apt/archives/*.deb', { cwd: downloads })
    .map((name) => path.join(downloads, name))
    .filter((file) => PACKAGES.includes(path.basename(file).split('_')[0]!))
    .sort();
  if (found.length !== PACKAGES.length) throw new Error(`Expected ${PACKAGES.length} packages, not ${found.length}.`);
  const packages = found.map((file) => {
    run('dpkg-deb', ['--extract', file, folder]);
    const field = (name: string): string => run('dpkg-deb', ['--field', file, name]).trim();
    const [name, version] = [field('Package'), field('Version')];
    writeFileSync(path.join(folder, 'var/lib/dpkg/status.d', name), run('dpkg-deb', ['--field', file]));
    return { name, version };
  });
  for (const name of UNUSED) rmSync(path.join(folder, name), { recursive: true, force: true });
  rmSync(downloads, { recursive: true });
  return packages;
}

/** Writes the files that Debian's maintainer scripts would create. */
function writeSystemFiles(folder: string): void {
  const certificates = path.join(folder, 'usr/share/ca-certificates/mozilla');
  const bundle = readdirSync(certificates).sort();
  mkdirSync(path.join(folder, 'etc/ssl/certs'), { recursive: true });
  const files: Record<string, string> = {
    'etc/ssl/certs/ca-certificates.crt': bundle
      .map((name) => readFileSync(path.join(certificates, name), 'utf8'))
      .join(''),
    'etc/passwd': `root:x:0:0:root:/root:/sbin/nologin\npostrider:x:${OWNER}:${OWNER}::/data:/sbin/nologin\n`,
    'etc/group': `root:x:0:\npostrider:x:${OWNER}:\n`,
    'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
}

interface ImageConfig {
  User: string;
  ExposedPorts: Record<string, object>;
  Env: string[];
  Entrypoint: string[];
  Cmd: string[];
  Volumes: Record<string, object>;
  WorkingDir: string;
  Labels: Record<string, string>;
  StopSignal: string;
  Healthcheck: { Test: string[]; Interval: number; Timeout: number; StartPeriod: number; Retries: number };
}

/** Reads the configuration of the image from the Dockerfile. */
function imageConfig(dockerfile: string): ImageConfig {
  const last = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));
  const part = (pattern: RegExp): string => {
    const [, found] = pattern.exec(last) ?? [];
    if (found === undefined) throw new Error(`The Dockerfile has no ${pattern}.`);
    return found;
  };
  const list = (pattern: RegExp): string[] => JSON.parse(part(pattern)) as string[];
  const seconds = (option: string): number => Number(part(new RegExp(`--${option}=(\\d+)s`))) * 1e9;
  const environment = part(/^ENV ((?:.*\\\n)*.*)$/m).split(/\s*\\?\n\s*/);
  const ports = part(/^EXPOSE (.*)$/m).split(' ');
  return {
    User: `${OWNER}:${OWNER}`,
    ExposedPorts: Object.fromEntries(ports.map((port) => [`${port}/tcp`, {}])),
    Env: ['PATH=/usr/local/bin:/usr/bin', ...environment],
    Entrypoint: list(/^ENTRYPOINT (\[.*\])$/m),
    Cmd: list(/^CMD (\[.*\])$/m),
    Volumes: { [part(/^VOLUME (.*)$/m)]: {} },
    WorkingDir: part(/^WORKDIR (.*)$/m),
    Labels: {
      'org.opencontainers.image.title': 'Postrider',
      'org.opencontainers.image.description': manifest.description,
      'org.opencontainers.image.licenses': manifest.license,
      'org.opencontainers.image.version': manifest.version,
    },
    StopSignal: part(/^STOPSIGNAL (.*)$/m),
    Healthcheck: {
      Test: ['CMD', ...list(/^ +CMD (\[.*\])$/m)],
      Interval: seconds('interval'),
      Timeout: seconds('timeout'),
      StartPeriod: seconds('start-period'),
      Retries: Number(part(/--retries=(\d+)/)),
    },
  };
}

const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');

/** Writes content-addressed files into an image layout. */
function blobWriter(layout: string): (mediaType: string, bytes: Buffer | string) => Descriptor {
  const folder = path.join(layout, 'blobs/sha256');
  mkdirSync(folder, { recursive: true });
  return (mediaType, bytes) => {
    const digest = sha256(bytes);
    writeFileSync(path.join(folder, digest), bytes);
    return { mediaType, digest: `sha256:${digest}`, size: Buffer.byteLength(bytes) };
  };
}

interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
}

/** Writes the folders of the layers: the system, folders that the service writes to, and the application. */
function writeLayers(app: string, work: string, architecture: Architecture): [folders: string[], DebianPackage[]] {
  const [system, writable, program] = ['system', 'writable', 'program'].map((name) =>
    path.join(work, `image-${architecture}`, name),
  ) as [string, string, string];
  const packages = writeBase(system, work, architecture);
  writeSystemFiles(system);
  copy(nodeBinary(architecture, work), path.join(system, 'usr/local/bin/node'));
  for (const name of ['data', 'content']) mkdirSync(path.join(writable, name), { recursive: true });
  copy(app, path.join(program, 'srv/postrider'));
  return [[system, writable, program], packages];
}

/**
 * Builds the image of the architecture. Returns the path of the archive in `out`, and the Debian packages in it. Two builds have the same
 * bytes while Debian's mirror has the same packages.
 */
export async function writeImage(
  app: string,
  work: string,
  out: string,
  options: { architecture: Architecture; epoch: number; level: number },
): Promise<{ file: string; packages: DebianPackage[] }> {
  const { architecture, epoch, level } = options;
  const [folders, packages] = writeLayers(app, work, architecture);
  const layout = path.join(work, `image-${architecture}`, 'layout');
  const blob = blobWriter(layout);
  const diffIds: string[] = [];
  const layers: Descriptor[] = [];
  for (const folder of folders) {
    const isWritable = folder.endsWith('/writable');
    const modes = isWritable ? { data: VOLUME_MODE, content: VOLUME_MODE } : { tmp: 0o1777, 'var/tmp': 0o1777 };
    normalize(folder, epoch, modes);
    const file = `${folder}.tar`;
    // Without an entry for the root, which belongs to the first layer alone.
    tar(folder, file, epoch, isWritable ? OWNER : 0, readdirSync(folder).sort());
    const bytes = readFileSync(file);
    diffIds.push(`sha256:${sha256(bytes)}`);
    layers.push(blob('application/vnd.oci.image.layer.v1.tar+gzip', await promisify(gzip)(bytes, { level })));
    rmSync(file);
  }
  const created = new Date(epoch * 1000).toISOString();
  const config = blob(
    'application/vnd.oci.image.config.v1+json',
    JSON.stringify({
      created,
      architecture,
      os: 'linux',
      config: imageConfig(readFileSync(path.join(root, 'deploy/Dockerfile'), 'utf8')),
      rootfs: { type: 'layers', diff_ids: diffIds },
      history: layers.map(() => ({ created, created_by: 'scripts/release.ts' })),
    }),
  );
  const type = 'application/vnd.oci.image.manifest.v1+json';
  const image = blob(type, JSON.stringify({ schemaVersion: 2, mediaType: type, config, layers }));
  const annotations = { 'org.opencontainers.image.ref.name': manifest.version };
  const platform = { architecture, os: 'linux' };
  const index = { schemaVersion: 2, manifests: [{ ...image, platform, annotations }] };
  writeFileSync(path.join(layout, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  writeFileSync(path.join(layout, 'index.json'), JSON.stringify(index));
  // docker load reads this file, and ignores index.json before version 25.
  const name = ({ digest }: Descriptor): string => `blobs/sha256/${digest.slice('sha256:'.length)}`;
  const tags = [`postrider:${manifest.version}`];
  const legacy = [{ Config: name(config), RepoTags: tags, Layers: layers.map(name) }];
  writeFileSync(path.join(layout, 'manifest.json'), JSON.stringify(legacy));
  normalize(layout, epoch);
  const file = path.join(out, `postrider-${manifest.version}-image-${architecture}.tar`);
  tar(layout, file, epoch, 0, readdirSync(layout).sort());
  return { file, packages };
}
