/** All records of a domain as a zone file and as Terraform, to copy or download. */
import { Button, Modal, SegmentedControl, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { IconDownload, IconFileCode } from '../../icons.ts';
import { Code } from '../../parts/copy.tsx';
import { saveFile } from '../../parts/csv.ts';
import { domainPage } from '../../texts/domains.ts';
import { type DnsRecord, terraformOf, zoneFileOf } from './zone.ts';

interface Format {
  value: string;
  label: string;
  ending: string;
  of(domain: string, records: readonly DnsRecord[]): string;
}

const FORMATS: readonly Format[] = [
  { value: 'zone', label: domainPage.zoneFile, ending: 'zone', of: zoneFileOf },
  {
    value: 'cloudflare',
    label: domainPage.cloudflare,
    ending: 'tf',
    of: (domain, records) => terraformOf('cloudflare', domain, records),
  },
  {
    value: 'route53',
    label: domainPage.route53,
    ending: 'tf',
    of: (domain, records) => terraformOf('route53', domain, records),
  },
];

export function ExportRecords({ domain, records }: { domain: string; records: readonly DnsRecord[] }) {
  const [isOpen, setOpen] = useState(false);
  const [value, setValue] = useState('zone');
  const format = FORMATS.find((one) => one.value === value) ?? FORMATS[0]!;
  const content = format.of(domain, records);
  return (
    <>
      <Button variant="default" leftSection={<IconFileCode size={14} />} onClick={() => setOpen(true)}>
        {domainPage.export}
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={domainPage.export} size="xl">
        <Stack gap="sm">
          <Text c="dimmed">{domainPage.exportHint}</Text>
          <SegmentedControl
            aria-label={domainPage.format}
            data={FORMATS.map((one) => ({ value: one.value, label: one.label }))}
            value={value}
            onChange={setValue}
            style={{ alignSelf: 'flex-start' }}
          />
          <Code code={content} label={`${domain}, ${format.label}`} />
          <Button
            variant="default"
            leftSection={<IconDownload size={14} />}
            onClick={() => saveFile(`${domain}.${format.ending}`, new Blob([content], { type: 'text/plain' }))}
            style={{ alignSelf: 'flex-start' }}
          >
            {domainPage.save}
          </Button>
        </Stack>
      </Modal>
    </>
  );
}
