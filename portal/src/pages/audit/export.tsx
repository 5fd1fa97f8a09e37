/** Exports the entire log as a file through the API, with the filters of the page. */
import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { Query } from '../../api.ts';
import { IconDownload } from '../../icons.ts';
import { saveFile } from '../../parts/csv.ts';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { audit } from '../../texts/audit.ts';

const FORMATS = [
  { operation: 'exportAuditAsCsv', name: audit.csv, file: 'audit.csv' },
  { operation: 'exportAuditAsJsonLines', name: audit.lines, file: 'audit.jsonl' },
] as const;

export function ExportButtons({ query }: { query: Query<'exportAuditAsCsv'> }) {
  return FORMATS.map((format) => <ExportButton key={format.name} {...format} query={query} />);
}

function ExportButton({
  operation,
  name,
  file,
  query,
}: (typeof FORMATS)[number] & { query: Query<'exportAuditAsCsv'> }) {
  const { caller } = useScope();
  const save = useMutation({
    mutationFn: async () => saveFile(file, await (await caller.call(operation, { query })).blob()),
    onError: failed,
  });
  return (
    <Button
      variant="default"
      leftSection={<IconDownload size={14} />}
      loading={save.isPending}
      onClick={() => save.mutate()}
    >
      {name}
    </Button>
  );
}
