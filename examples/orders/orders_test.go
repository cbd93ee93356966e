package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// shop is the service under a driver.
type shop struct {
	*tidegatetest.Driver
	orders    *tidegatetest.Input[string, Order]
	customers *tidegatetest.Input[string, Customer]
	shipments *tidegatetest.Output[string, Shipment]
}

func newShop(t *testing.T) *shop {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology,
		tidegatetest.WithTopic("orders", 3), tidegatetest.WithTopic("customers", 2), tidegatetest.WithTopic("shipments", 3))
	return &shop{
		Driver:    driver,
		orders:    driver.Input("orders", serde.String(), serde.JSON[Order]()),
		customers: driver.Input("customers", serde.String(), serde.JSON[Customer]()),
		shipments: driver.Output("shipments", serde.String(), serde.JSON[Shipment]()),
	}
}

func TestAnOrderMeetsItsCustomer(t *testing.T) {
	s := newShop(t)
	s.orders.Pipe("o1", Order{Customer: "c1", Item: "tea"})
	require.Zero(t, s.shipments.Len(), "the customer is not known yet")

	s.customers.Pipe("c1", Customer{Name: "Ann", City: "Bonn"})
	require.Equal(t, []tidegatetest.KeyValue[string, Shipment]{
		tidegatetest.KV("o1", Shipment{Item: "tea", Name: "Ann", City: "Bonn"}),
	}, s.shipments.ReadKeyValues())
}

func TestACustomerWhoMovesChangesAllTheirOrders(t *testing.T) {
	s := newShop(t)
	s.customers.Pipe("c1", Customer{Name: "Ann", City: "Bonn"})
	s.customers.Pipe("c2", Customer{Name: "Bob", City: "Rome"})
	s.orders.Pipe("o1", Order{Customer: "c1", Item: "tea"})
	s.orders.Pipe("o2", Order{Customer: "c2", Item: "pen"})
	s.orders.Pipe("o3", Order{Customer: "c1", Item: "cup"})
	require.Len(t, s.shipments.ReadAll(), 3)

	s.Restart() // who ordered what is kept
	s.customers.Pipe("c1", Customer{Name: "Ann", City: "Oslo"})
	require.ElementsMatch(t, []tidegatetest.KeyValue[string, Shipment]{
		tidegatetest.KV("o1", Shipment{Item: "tea", Name: "Ann", City: "Oslo"}),
		tidegatetest.KV("o3", Shipment{Item: "cup", Name: "Ann", City: "Oslo"}),
	}, s.shipments.ReadKeyValues())
}

func TestARowThatLosesItsPartnerIsDeleted(t *testing.T) {
	s := newShop(t)
	s.customers.Pipe("c1", Customer{Name: "Ann", City: "Bonn"})
	s.orders.Pipe("o1", Order{Customer: "c1", Item: "tea"})
	s.orders.Pipe("o2", Order{Customer: "c1", Item: "pen"})
	require.Len(t, s.shipments.ReadAll(), 2)

	s.orders.Pipe("o1", Order{}, tidegatetest.Tombstone()) // the order is cancelled
	require.Equal(t, []tidegatetest.KeyValue[string, Shipment]{
		tidegatetest.Deleted[string, Shipment]("o1"),
	}, s.shipments.ReadKeyValues())

	s.orders.Pipe("o2", Order{Customer: "c7", Item: "pen"}) // a customer nobody knows
	require.Equal(t, []tidegatetest.KeyValue[string, Shipment]{
		tidegatetest.Deleted[string, Shipment]("o2"),
	}, s.shipments.ReadKeyValues())
}
