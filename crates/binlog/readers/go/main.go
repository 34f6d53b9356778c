// Prints every event and every row value of binlog files as go-mysql reads them.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

var out = bufio.NewWriter(os.Stdout)

func main() {
	for _, name := range os.Args[1:] {
		fmt.Fprintf(out, "{\"file\":%q}\n", name)
		parser := replication.NewBinlogParser()
		parser.SetVerifyChecksum(true)
		parser.SetTimestampStringLocation(time.UTC)
		parser.SetRowsEventDecodeFunc(func(rows *replication.RowsEvent, data []byte) error {
			if rows.Decode(data) != nil {
				rows.Rows = nil // printed without rows: the comparison sees it
			}
			return nil
		})
		err := parser.ParseFile(name, 0, func(event *replication.BinlogEvent) error {
			print(event, false)
			return nil
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
	out.Flush()
}

func print(event *replication.BinlogEvent, inside bool) {
	fmt.Fprintf(out, "{\"event\":%d,\"inside\":%t", event.Header.EventType, inside)
	if rows, ok := event.Event.(*replication.RowsEvent); ok {
		fmt.Fprintf(out, ",\"rows\":%s", list(rowsOf(rows)))
	}
	fmt.Fprintln(out, "}")
	if payload, ok := event.Event.(*replication.TransactionPayloadEvent); ok {
		for _, event := range payload.Events {
			print(event, true)
		}
	}
}

// An update has two images: before and after.
func rowsOf(event *replication.RowsEvent) []string {
	images := 1
	if event.ColumnBitmap2 != nil {
		images = 2
	}
	rows := []string{}
	for at := 0; at < len(event.Rows); at += images {
		row := []string{}
		for image := at; image < at+images; image++ {
			skipped := map[int]bool{}
			for _, column := range event.SkippedColumns[image] {
				skipped[column] = true
			}
			values := []string{}
			for column, value := range event.Rows[image] {
				if !skipped[column] {
					values = append(values, text(value, event.Table, column))
				}
			}
			row = append(row, list(values))
		}
		rows = append(rows, list(row))
	}
	return rows
}

func list(parts []string) string {
	return "[" + strings.Join(parts, ",") + "]"
}

func text(value any, table *replication.TableMapEvent, column int) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case float32:
		return fmt.Sprintf("\"f:%08x\"", math.Float32bits(value))
	case float64:
		return fmt.Sprintf("\"d:%016x\"", math.Float64bits(value))
	case []byte:
		return fmt.Sprintf("\"s:%x\"", value)
	case string:
		return fmt.Sprintf("\"%s\"", written(value, table.ColumnType[column]))
	case *replication.JsonDiff:
		return "\"j:\""
	}
	return fmt.Sprintf("\"i:%d\"", value)
}

func written(value string, columnType byte) string {
	switch columnType {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		return "t:" + value
	case mysql.MYSQL_TYPE_DATE:
		return "D:" + value + " 0:0:0.000000"
	case mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIMESTAMP2:
		return "D:" + value
	case mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2:
		return "T:" + value
	case mysql.MYSQL_TYPE_JSON:
		return "j:"
	}
	return fmt.Sprintf("s:%x", value)
}
